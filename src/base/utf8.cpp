#include "gpuhpc/base/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace gpuhpc {

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

void append_code_point(char32_t c, std::string& out) {
  char utf8[4];
  out.append(utf8, static_cast<std::size_t>(put_code_point(c, utf8)));
}

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight;
    while (at + sizeof eight <= text.size()) {  // plain ASCII in steps of eight
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080ULL) != 0) break;
      at += sizeof eight;
    }
    if (at == text.size()) break;
    const std::size_t begin = at;
    if (next_code_point(text, at) == replacement_character &&
        text.substr(begin, at - begin) != "\uFFFD")
      return begin;
  }
  return std::string_view::npos;
}

void append_valid_utf8(std::string_view text, std::string& out) {
  for (std::size_t at = 0; at < text.size();) append_code_point(next_code_point(text, at), out);
}

}  // namespace gpuhpc
