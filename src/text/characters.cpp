#include "characters.hpp"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utf16.h>

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

char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(position++);
  if (first < 0x80) return first;
  int following = 0;
  unsigned low = 0x80, high = 0xBF;  // bounds of the second byte
  char32_t c = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    following = 1, c = first & 0x1F;
  } else if (first >= 0xE0 && first <= 0xEF) {
    following = 2, c = first & 0x0F;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    following = 3, c = first & 0x07;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return replacement_character;
  }
  for (int i = 0; i < following; ++i) {
    const unsigned next = byte(position);
    if (next < low || next > high) return replacement_character;
    low = 0x80, high = 0xBF;
    c = (c << 6) | (next & 0x3F);
    ++position;
  }
  return c;
}

int put_code_point(char32_t c, char* out) {
  if (c < 0x80) {
    out[0] = static_cast<char>(c);
    return 1;
  }
  if (c < 0x800) {
    out[0] = static_cast<char>(0xC0 | (c >> 6)), out[1] = static_cast<char>(0x80 | (c & 0x3F));
    return 2;
  }
  if (c < 0x10000) {
    out[0] = static_cast<char>(0xE0 | (c >> 12)),
    out[1] = static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out[2] = static_cast<char>(0x80 | (c & 0x3F));
    return 3;
  }
  out[0] = static_cast<char>(0xF0 | (c >> 18)),
  out[1] = static_cast<char>(0x80 | ((c >> 12) & 0x3F));
  out[2] = static_cast<char>(0x80 | ((c >> 6) & 0x3F)),
  out[3] = static_cast<char>(0x80 | (c & 0x3F));
  return 4;
}

}  // namespace gpuhpc
