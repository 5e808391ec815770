#include "graphemes.hpp"

#include <unicode/uchar.h>

#include <algorithm>

#include "characters.hpp"

namespace gpuhpc {
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
