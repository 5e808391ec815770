// GPT-2's pattern 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ by
// hand: one look at each character.
#include <unicode/uchar.h>

#include <algorithm>

#include "byte_bpe.hpp"
#include "characters.hpp"

namespace gpuhpc {
namespace {

enum class PatternKind : unsigned char { other, letter, number, space };

// Letters and numbers of Unicode 16, which Oniguruma knows and ICU 72 does not.
struct Younger {
  char32_t first, last;
  PatternKind kind;
};
constexpr auto letter = PatternKind::letter, number = PatternKind::number;
constexpr Younger younger[] = {
    {0x1C89, 0x1C8A, letter},   {0xA7CB, 0xA7CD, letter},   {0xA7DA, 0xA7DC, letter},
    {0x105C0, 0x105F3, letter}, {0x10D40, 0x10D49, number}, {0x10D4A, 0x10D65, letter},
    {0x10D6F, 0x10D85, letter}, {0x10EC2, 0x10EC4, letter}, {0x11380, 0x11389, letter},
    {0x1138B, 0x1138B, letter}, {0x1138E, 0x1138E, letter}, {0x11390, 0x113B5, letter},
    {0x113B7, 0x113B7, letter}, {0x113D1, 0x113D1, letter}, {0x113D3, 0x113D3, letter},
    {0x116D0, 0x116E3, number}, {0x11BC0, 0x11BE0, letter}, {0x11BF0, 0x11BF9, number},
    {0x13460, 0x143FA, letter}, {0x16100, 0x1611D, letter}, {0x16130, 0x16139, number},
    {0x16D40, 0x16D6C, letter}, {0x16D70, 0x16D79, number}, {0x18CFF, 0x18CFF, letter},
    {0x1CCF0, 0x1CCF9, number}, {0x1E5D0, 0x1E5ED, letter}, {0x1E5F0, 0x1E5F0, letter},
    {0x1E5F1, 0x1E5FA, number}, {0x2EBF0, 0x2EE5D, letter},
};

// \p{L}, \p{N} and \s.
PatternKind pattern_kind(char32_t c) {
  if (is_white_space(c)) return PatternKind::space;
  const std::uint32_t category = U_GET_GC_MASK(static_cast<UChar32>(c));
  if ((category & U_GC_L_MASK) != 0) return PatternKind::letter;
  if ((category & U_GC_N_MASK) != 0) return PatternKind::number;
  if ((category & U_GC_CN_MASK) == 0) return PatternKind::other;
  const auto* range = std::find_if(std::begin(younger), std::end(younger),
                                   [&](const Younger& r) { return c <= r.last; });
  return range != std::end(younger) && c >= range->first ? range->kind : PatternKind::other;
}

constexpr auto ascii_kinds = [] {
  std::array<PatternKind, 128> kinds{};
  const auto set = [&](char first, char last, PatternKind kind) {
    for (int c = first; c <= last; ++c) kinds[static_cast<std::size_t>(c)] = kind;
  };
  set('a', 'z', PatternKind::letter), set('A', 'Z', PatternKind::letter),
      set('0', '9', PatternKind::number);
  set('\t', '\r', PatternKind::space), set(' ', ' ', PatternKind::space);
  return kinds;
}();

struct Character {
  PatternKind kind;
  std::size_t end;
};

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {ascii_kinds[byte], at + 1};
  const char32_t c = next_code_point(text, at);
  return {pattern_kind(c), at};
}

// End of the characters of `kind` from `at` on.
std::size_t run_end(std::string_view text, std::size_t at, PatternKind kind) {
  while (at < text.size()) {
    const Character c = character_at(text, at);
    if (c.kind != kind) break;
    at = c.end;
  }
  return at;
}

}  // namespace

// Length of 's, 't, 're, 've, 'm, 'll or 'd at `at`, 0: none.
std::size_t ByteBpe::contraction(std::string_view text, std::size_t at) {
  if (text[at] != '\'' || at + 1 == text.size()) return 0;
  const char first = text[at + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const std::string_view two = text.substr(at + 1, 2);
  return two == "re" || two == "ve" || two == "ll" ? 3 : 0;
}

std::size_t ByteBpe::word_end(std::string_view text, std::size_t at) {
  if (const std::size_t length = contraction(text, at)) return at + length;
  const Character first = character_at(text, at);
  if (first.kind != PatternKind::space) return run_end(text, first.end, first.kind);
  if (text[at] == ' ' && first.end < text.size()) {
    const Character second = character_at(text, first.end);
    if (second.kind != PatternKind::space) return run_end(text, second.end, second.kind);
  }
  // White space: all of it at the end of the text, else all but its last character, which may lead
  // the next word.
  std::size_t last = at, end = first.end;
  while (end < text.size()) {
    const Character next = character_at(text, end);
    if (next.kind != PatternKind::space) return last > at ? last : end;
    last = end, end = next.end;
  }
  return end;
}

}  // namespace gpuhpc
