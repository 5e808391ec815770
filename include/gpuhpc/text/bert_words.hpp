#pragma once
// BertNormalizer and BertPreTokenizer for the runs of text that are not plain ASCII: bytes in,
// normalised words out.
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/base/utf8.hpp"

namespace gpuhpc {

struct BertWordSettings {
  bool clean_text = true;            // drop control characters, every white space becomes a space
  bool handle_chinese_chars = true;  // each CJK ideograph is a word
  bool strip_accents = true;
  bool lowercase = true;
};

// What becomes of one code point, whatever stands around it.
struct CharacterRule {
  enum class Kind : std::uint8_t {
    drop,      // leaves nothing
    space,     // ends a word
    isolated,  // a word of its own
    text,      // part of a word
    // depends on its neighbours (a mark to be reordered), or becomes several kinds:
    // BertWords::reordered
    involved,
  };
  Kind kind = Kind::drop;
  std::uint8_t bytes = 0, characters = 0;
  char utf8[13] = {};  // the normalised form, `bytes` long
};
static_assert(sizeof(CharacterRule) == 16);

// Rules are worked out 256 code points at a time when text first needs them. One object a thread.
class BertWords {
 public:
  explicit BertWords(const BertWordSettings& settings) : settings_(settings) {}

  // Calls word(std::string_view normalised, std::size_t characters) for each word of `run`, in
  // order.
  template <typename Word>
  void split(std::string_view run, Word&& word);
  std::string normalized(std::string_view text);  // what BertNormalizer makes of it

 private:
  const CharacterRule& rule(char32_t c) {
    auto& block = blocks_[c >> 8];
    if (!block) block = make_block(c >> 8);
    return (*block)[c & 0xFF];
  }
  using Block = std::array<CharacterRule, 256>;
  std::unique_ptr<Block> make_block(char32_t high) const;
  CharacterRule make_rule(char32_t c) const;
  CharacterRule::Kind kind_of(char32_t c) const;  // of a normalised character
  // Steps of BertNormalizer in turn over the whole run, with canonical reordering; the result is in
  // points_.
  void reordered(std::string_view run);
  void strip_accents();

  BertWordSettings settings_;
  std::array<std::unique_ptr<Block>, 0x1100> blocks_;
  std::string word_;
  std::vector<char32_t> points_, decomposed_;
};

template <typename Word>
void BertWords::split(std::string_view run, Word&& word) {
  word_.clear();
  std::size_t characters = 0;
  const auto flush = [&] {
    if (characters != 0) word(std::string_view(word_), characters);
    word_.clear();
    characters = 0;
  };
  const auto apply = [&](const CharacterRule& r) {
    using Kind = CharacterRule::Kind;
    if (r.kind == Kind::drop) return;
    if (r.kind != Kind::text) flush();
    if (r.kind == Kind::space) return;
    word_.append(r.utf8, r.bytes);
    characters += r.characters;
    if (r.kind == Kind::isolated) flush();
  };
  // Words may be handed out before an involved character is met, so look for one first.
  bool involved = false;
  for (std::size_t at = 0; at < run.size() && !involved;) {
    involved = rule(next_code_point(run, at)).kind == CharacterRule::Kind::involved;
  }
  if (!involved) {
    for (std::size_t at = 0; at < run.size();) apply(rule(next_code_point(run, at)));
  } else {
    reordered(run);
    for (const char32_t c : points_) {
      CharacterRule r;
      r.kind = kind_of(c);
      r.characters = 1;
      r.bytes = static_cast<std::uint8_t>(put_code_point(c, r.utf8));
      apply(r);
    }
  }
  flush();
}

}  // namespace gpuhpc
