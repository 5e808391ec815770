#pragma once
// The words of byte-level BPE: a text cut by GPT-2's pattern
#include <array>
#include <cstddef>
#include <string_view>

#include "characters.hpp"

namespace gpuhpc {

// GPT-2's pattern 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ by
// hand: one look at each character.
inline constexpr auto pattern_kinds = [] {
  std::array<PatternKind, 128> kinds{};
  const auto set = [&](char first, char last, PatternKind kind) {
    for (int c = first; c <= last; ++c) kinds[static_cast<std::size_t>(c)] = kind;
  };
  set('a', 'z', PatternKind::letter), set('A', 'Z', PatternKind::letter),
      set('0', '9', PatternKind::number);
  set('\t', '\r', PatternKind::space), set(' ', ' ', PatternKind::space);
  return kinds;
}();

struct PatternCharacter {
  PatternKind kind;
  std::size_t end;
};

inline PatternCharacter character_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {pattern_kinds[byte], at + 1};
  const char32_t c = next_code_point(text, at);
  return {pattern_kind(c), at};
}

// End of the characters of `kind` from `at` on.
inline std::size_t run_end(std::string_view text, std::size_t at, PatternKind kind) {
  while (at < text.size()) {
    const PatternCharacter c = character_at(text, at);
    if (c.kind != kind) break;
    at = c.end;
  }
  return at;
}

// Length of 's, 't, 're, 've, 'm, 'll or 'd at `at`, 0: none.
inline std::size_t contraction(std::string_view text, std::size_t at) {
  if (text[at] != '\'' || at + 1 == text.size()) return 0;
  const char first = text[at + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const std::string_view two = text.substr(at + 1, 2);
  return two == "re" || two == "ve" || two == "ll" ? 3 : 0;
}

inline std::size_t byte_word_end(std::string_view text, std::size_t at) {
  if (const std::size_t length = contraction(text, at)) return at + length;
  const PatternCharacter first = character_at(text, at);
  if (first.kind != PatternKind::space) return run_end(text, first.end, first.kind);
  if (text[at] == ' ' && first.end < text.size()) {
    const PatternCharacter second = character_at(text, first.end);
    if (second.kind != PatternKind::space) return run_end(text, second.end, second.kind);
  }
  // White space: all of it at the end of the text, else all but its last character, which may lead
  // the next word.
  std::size_t last = at, end = first.end;
  while (end < text.size()) {
    const PatternCharacter next = character_at(text, end);
    if (next.kind != PatternKind::space) return last > at ? last : end;
    last = end, end = next.end;
  }
  return end;
}

// Calls word(begin, end) for each word of `text`, in order.
template <typename Word>
void split_byte_words(std::string_view text, Word&& word) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = byte_word_end(text, at);
    word(at, end);
    at = end;
  }
}

}  // namespace gpuhpc
