#include "characters.hpp"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utf16.h>

#include <algorithm>

namespace gpuhpc {
namespace {

constexpr int category_version = 80;       // unicode_categories 0.1
constexpr int normalization_version = 90;  // unicode_normalization_alignments 0.1

int age(char32_t c) {
  UVersionInfo version;
  u_charAge(static_cast<UChar32>(c), version);
  return version[0] * 10 + version[1];  // 0: unassigned
}

std::uint32_t category_bit(char32_t c) {
  const int years = age(c);
  return years == 0 || years > category_version ? U_GC_CN_MASK
                                                : U_GET_GC_MASK(static_cast<UChar32>(c));
}

const UNormalizer2* canonical() {
  UErrorCode status = U_ZERO_ERROR;
  return unorm2_getNFDInstance(&status);  // ICU's own constant, loaded once
}

// Lower-case pairs of Unicode 16 and 17, which Rust's standard library knows and ICU 72 does not.
struct CaseRange {
  char32_t first, last;
  std::int32_t to_lower;
};
constexpr CaseRange younger_case[] = {
    {0x1C89, 0x1C89, 1},    {0xA7CB, 0xA7CB, -42343}, {0xA7CC, 0xA7CC, 1}, {0xA7CE, 0xA7CE, 1},
    {0xA7D2, 0xA7D2, 1},    {0xA7D4, 0xA7D4, 1},      {0xA7DA, 0xA7DA, 1}, {0xA7DC, 0xA7DC, -42561},
    {0x10D50, 0x10D65, 32}, {0x16EA0, 0x16EB8, 27},
};

}  // namespace

bool is_removed_by_cleaning(char32_t c) {
  if (c == U'\t' || c == U'\n' || c == U'\r') return false;
  if (c == 0 || c == replacement_character) return true;
  return (category_bit(c) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0;
}

bool is_white_space(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE) != 0;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7F && !u_isalnum(static_cast<UChar32>(c));
  if (c == 0x166D || c == 0x111C9)
    return true;  // Canadian chi sign, Sandhi mark: other categories since Unicode 12 and 11
  return (category_bit(c) & U_GC_P_MASK) != 0;
}

bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_nonspacing_mark(char32_t c) {
  if (c == 0x1734) return true;  // became a spacing mark in Unicode 14
  if (c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9)
    return false;  // became marks after Unicode 8
  return (category_bit(c) & U_GC_MN_MASK) != 0;
}

bool is_normalization_known(char32_t c) { return age(c) <= normalization_version; }

int combining_class(char32_t c) {
  return !is_normalization_known(c) ? 0 : u_getCombiningClass(static_cast<UChar32>(c));
}

int decompose(char32_t c, char32_t (&out)[4]) {
  out[0] = c;
  if (c < 0xC0 || !is_normalization_known(c)) return 1;
  UChar units[16];
  UErrorCode status = U_ZERO_ERROR;
  const std::int32_t length =
      unorm2_getDecomposition(canonical(), static_cast<UChar32>(c), units, 16, &status);
  if (length <= 0 || U_FAILURE(status)) return 1;
  int count = 0;
  for (std::int32_t i = 0; i < length && count < 4;) {
    UChar32 part;
    U16_NEXT(units, i, length, part);
    out[count++] = static_cast<char32_t>(part);
  }
  return count;
}

int lower_case(char32_t c, char32_t (&out)[2]) {
  if (c == 0x130) {  // the only letter with a longer lower case
    out[0] = U'i', out[1] = 0x307;
    return 2;
  }
  out[0] = static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
  for (const auto& range : younger_case) {
    if (c >= range.first && c <= range.last)
      out[0] = static_cast<char32_t>(static_cast<std::int32_t>(c) + range.to_lower);
  }
  return 1;
}

namespace {

// Word characters of Unicode 15.1 and 16, which the regex crate knows and ICU 72 does not.
constexpr char32_t younger_word_characters[][2] = {
    {0x897, 0x897},     {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},
    {0x105C0, 0x105F3}, {0x10D40, 0x10D65}, {0x10D69, 0x10D6D}, {0x10D6F, 0x10D85},
    {0x10EC2, 0x10EC4}, {0x10EFC, 0x10EFC}, {0x11380, 0x11389}, {0x1138B, 0x1138B},
    {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113C0}, {0x113C2, 0x113C2},
    {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D3}, {0x113E1, 0x113E2},
    {0x116D0, 0x116E3}, {0x11BC0, 0x11BE0}, {0x11BF0, 0x11BF9}, {0x11F5A, 0x11F5A},
    {0x13460, 0x143FA}, {0x16100, 0x16139}, {0x16D40, 0x16D6C}, {0x16D70, 0x16D79},
    {0x18CFF, 0x18CFF}, {0x1CCF0, 0x1CCF9}, {0x1E5D0, 0x1E5FA}, {0x2EBF0, 0x2EE5D},
};

}  // namespace

bool is_word_character(char32_t c) {
  const auto u = static_cast<UChar32>(c);
  for (const auto& [first, last] : younger_word_characters) {
    if (c >= first && c <= last) return true;
  }
  return u_isUAlphabetic(u) || u_hasBinaryProperty(u, UCHAR_JOIN_CONTROL) ||
         (U_GET_GC_MASK(u) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

namespace {

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

}  // namespace

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

// Canonical decomposition, reordering and composition (Unicode 3.11).
namespace {

// The composite of a starter and what follows, 0: there is none.
char32_t composite(char32_t first, char32_t second) {
  UErrorCode status = U_ZERO_ERROR;
  const UNormalizer2* canonical = unorm2_getNFCInstance(&status);  // ICU's own constant
  const UChar32 pair =
      unorm2_composePair(canonical, static_cast<UChar32>(first), static_cast<UChar32>(second));
  return pair < 0 || !is_normalization_known(static_cast<char32_t>(pair))
             ? 0
             : static_cast<char32_t>(pair);
}

}  // namespace

void decompose(std::vector<char32_t>& points, std::vector<char32_t>& buffer) {
  buffer.clear();
  for (const char32_t c : points) {
    char32_t parts[4];
    buffer.insert(buffer.end(), parts, parts + decompose(c, parts));
  }
  points.swap(buffer);
  // Marks between two starters are sorted by class, equal classes stay as they are (D109).
  for (auto first = points.begin(); first != points.end();) {
    const auto marked = [](char32_t c) { return combining_class(c) != 0; };
    first = std::find_if(first, points.end(), marked);
    const auto last = std::find_if_not(first, points.end(), marked);
    std::stable_sort(first, last, [](char32_t a, char32_t b) {
      return combining_class(a) < combining_class(b);
    });
    first = last;
  }
}

// D117: a character joins the last starter unless one of its class or above stands between them.
void compose(std::vector<char32_t>& points) {
  std::size_t kept = 0, starter = 0;
  bool has_starter = false;
  int last_class = 0;  // of the character kept last, behind the starter
  for (const char32_t c : points) {
    const int combining = combining_class(c);
    const bool adjacent = has_starter && kept == starter + 1;
    if (has_starter && (adjacent || (last_class < combining && last_class != 0))) {
      const char32_t joined = composite(points[starter], c);
      if (joined != 0) {
        points[starter] = joined;
        continue;
      }
    }
    if (combining == 0) starter = kept, has_starter = true;
    last_class = combining;
    points[kept++] = c;
  }
  points.resize(kept);
}

namespace {

// Marks of Unicode 15.1 to 17, which the crate knows and ICU 72 does not; all join what stands
// before them.
constexpr char32_t younger_marks[][2] = {
    {0x897, 0x897},     {0x1ACF, 0x1ADD},   {0x1AE0, 0x1AEB},   {0x10D69, 0x10D6D},
    {0x10EFA, 0x10EFC}, {0x113B8, 0x113C0}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5},
    {0x113C7, 0x113CA}, {0x113CC, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2},
    {0x11B60, 0x11B67}, {0x11F5A, 0x11F5A}, {0x1611E, 0x1612F}, {0x1E5EE, 0x1E5EF},
    {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5},
};
constexpr char32_t younger_prepended = 0x113D1;  // Tulu-Tigalari repha

UGraphemeClusterBreak break_class(char32_t c) {
  if (u_charType(static_cast<UChar32>(c)) == U_UNASSIGNED) {
    if (c == younger_prepended) return U_GCB_PREPEND;
    const auto* range = std::find_if(std::begin(younger_marks), std::end(younger_marks),
                                     [&](const auto& r) { return c <= r[1]; });
    if (range != std::end(younger_marks) && c >= (*range)[0]) return U_GCB_EXTEND;
  }
  return static_cast<UGraphemeClusterBreak>(
      u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_GRAPHEME_CLUSTER_BREAK));
}

bool is_control(UGraphemeClusterBreak b) {
  return b == U_GCB_CONTROL || b == U_GCB_CR || b == U_GCB_LF;
}

bool is_pictograph(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_EXTENDED_PICTOGRAPHIC) != 0;
}

// GB6 to GB8: Hangul syllables.
bool joins_hangul(UGraphemeClusterBreak before, UGraphemeClusterBreak after) {
  if (before == U_GCB_L)
    return after == U_GCB_L || after == U_GCB_V || after == U_GCB_LV || after == U_GCB_LVT;
  if (before == U_GCB_LV || before == U_GCB_V) return after == U_GCB_V || after == U_GCB_T;
  return (before == U_GCB_LVT || before == U_GCB_T) && after == U_GCB_T;
}

}  // namespace

std::size_t grapheme_end(std::string_view text, std::size_t at) {
  const char32_t first = next_code_point(text, at);
  UGraphemeClusterBreak before = break_class(first);
  if (before == U_GCB_CR) return at < text.size() && text[at] == '\n' ? at + 1 : at;
  if (is_control(before)) return at;
  bool after_pictograph = is_pictograph(first),
       after_joiner = false;                                 // GB11: pictograph, marks, joiner
  bool odd_indicators = before == U_GCB_REGIONAL_INDICATOR;  // GB12, GB13: flags are pairs
  while (at < text.size()) {
    std::size_t next = at;
    const char32_t c = next_code_point(text, next);
    const UGraphemeClusterBreak now = break_class(c);
    const bool pictograph = is_pictograph(c);
    if (is_control(now)) return at;
    const bool joined = now == U_GCB_EXTEND || now == U_GCB_ZWJ || now == U_GCB_SPACING_MARK ||
                        before == U_GCB_PREPEND || joins_hangul(before, now) ||
                        (after_joiner && pictograph) ||
                        (now == U_GCB_REGIONAL_INDICATOR && odd_indicators);
    if (!joined) return at;
    after_joiner = after_pictograph && now == U_GCB_ZWJ;
    after_pictograph = pictograph || (after_pictograph && now == U_GCB_EXTEND);
    odd_indicators =
        now == U_GCB_REGIONAL_INDICATOR && !(before == U_GCB_REGIONAL_INDICATOR && odd_indicators);
    before = now;
    at = next;
  }
  return at;
}

}  // namespace gpuhpc
