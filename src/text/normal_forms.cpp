// Canonical decomposition, reordering and composition (Unicode 3.11) with the characters of Unicode
// 9, as characters.hpp says.
#include <unicode/unorm2.h>

#include <algorithm>

#include "characters.hpp"

namespace gpuhpc {
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

}  // namespace gpuhpc
