#include "gpuhpc/text/words.hpp"

#include <unicode/uchar.h>

#include <array>

#include "characters.hpp"

namespace gpuhpc {
namespace {

enum class Kind { letter, joiner, tail, gap, punctuation };

constexpr Kind ascii_kind(char32_t c) {
  if ((c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9'))
    return Kind::letter;
  if (c == U'+' || c == U'#') return Kind::tail;
  if (c == U'\'' || c == U'-' || c == U'.') return Kind::joiner;
  if (c <= 0x20 || c == 0x7F || c == U'/' || c == U'_' || c == U'&' || c == U'*') return Kind::gap;
  return Kind::punctuation;
}

constexpr auto ascii_kinds = [] {
  std::array<Kind, 128> kinds{};
  for (char32_t c = 0; c < 128; ++c) kinds[c] = ascii_kind(c);
  return kinds;
}();

Kind kind_of(char32_t c) {
  if (c < 0x80) return ascii_kinds[c];
  const auto u = static_cast<UChar32>(c);
  if (c == replacement_character) return Kind::gap;
  if (u_isalnum(u) || (U_GET_GC_MASK(u) & U_GC_M_MASK) != 0) return Kind::letter;
  if (c == 0x2019 || c == 0x2010 || c == 0x2011) return Kind::joiner;
  return is_white_space(c) || (U_GET_GC_MASK(u) & U_GC_C_MASK) != 0 ? Kind::gap : Kind::punctuation;
}

}  // namespace

void Words::split(std::string_view text) {
  bytes_.clear(), ends_.clear(), breaks_.clear();
  bool in_word = false, broken = true;
  std::size_t before = 0;
  const auto put = [&](char32_t c) {
    char utf8[4];
    bytes_.append(utf8, static_cast<std::size_t>(put_code_point(c, utf8)));
  };
  const auto close = [&] {
    if (in_word) ends_.push_back(bytes_.size());
    in_word = false;
  };
  for (std::size_t at = 0; at < text.size();) {
    before = at;
    const char32_t c = next_code_point(text, at);
    const Kind kind = kind_of(c);
    if (kind == Kind::letter) {
      if (!in_word) breaks_.push_back(broken);
      in_word = true, broken = false;
      if (c < 0x80) {
        bytes_ += static_cast<char>(c >= U'A' && c <= U'Z' ? c + 0x20 : c);
        continue;
      }
      put(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
      continue;
    }
    if (in_word && kind == Kind::tail) {
      bytes_ += text[before];
      continue;
    }
    if (in_word && kind == Kind::joiner && at < text.size()) {
      std::size_t ahead = at;
      if (kind_of(next_code_point(text, ahead)) == Kind::letter) {
        put(c == 0x2019 ? U'\'' : c >= 0x80 ? U'-' : c);
        continue;
      }
    }
    close();
    broken |= kind == Kind::punctuation || c == U'.';
  }
  close();
}

}  // namespace gpuhpc
