#pragma once
// Tokens back to text: the decoders of tokenizer.json as Hugging Face tokenizers 0.23 applies them.
#include <array>
#include <string>
#include <variant>
#include <vector>

#include "normalizers.hpp"

namespace gpuhpc {

// How GPT-2's vocabulary writes a byte: visible Latin-1 characters as themselves, the other bytes
// as U+0100, U+0101, ... in turn.
constexpr bool is_visible_byte(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}
inline constexpr auto byte_characters = [] {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte)
    characters[byte] = is_visible_byte(byte) ? static_cast<char32_t>(byte) : next++;
  return characters;
}();

// WordPiece: a token without the prefix begins a word; cleanup takes the space before .,!? and
// English contractions away.
struct JoinPieces {
  std::string prefix;
  bool cleanup = true;
};
struct JoinBytes {};  // ByteLevel
// How SentencePiece writes a space.
constexpr const char* metaspace = "\u2581";
struct JoinSpaced {    // Metaspace
  std::string spacer;  // a character
  bool drop_first = true;
};
struct JoinByteTokens {};  // ByteFallback: <0xE2><0x96> ...
struct FuseTokens {};
struct StripCharacter {
  std::string character;
  std::size_t start = 0, stop = 0;  // so many at most
};
using DecoderStep = std::variant<JoinPieces, JoinBytes, JoinSpaced, JoinByteTokens, FuseTokens,
                                 StripCharacter, ReplaceText>;

struct TokenDecoder {
  bool given = false;  // else tokens are joined by spaces
  std::vector<DecoderStep> steps;

  std::string text_of(std::vector<std::string> tokens) const;
};

}  // namespace gpuhpc
