#include "charsmap.hpp"

#include <algorithm>
#include <cstring>

#include "characters.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/lines.hpp"
#include "graphemes.hpp"

namespace gpuhpc {
namespace {

// A unit of the double array: bits 0-7 label, 8 has a leaf, 9 widens the offset, 10-30 offset; bit
// 31 marks a leaf, its rest the value.
constexpr std::uint32_t label(std::uint32_t unit) { return unit & (0x80000000u | 0xFF); }
constexpr bool has_leaf(std::uint32_t unit) { return ((unit >> 8) & 1) != 0; }
constexpr std::uint64_t offset(std::uint32_t unit) {
  return std::uint64_t{unit >> 10} << ((unit & (1u << 9)) >> 6);
}
constexpr std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& where) {
  std::uint32_t trie_bytes = 0;
  if (bytes.size() >= 4) std::memcpy(&trie_bytes, bytes.data(), 4);
  const std::size_t units = trie_bytes / 4;
  if (units == 0 || units * 4 > bytes.size() - 4)
    throw input_error("{}: the charsmap is cut off; take the file of the model again", where);
  units_.resize(units);
  std::memcpy(units_.data(), bytes.data() + 4, units * 4);
  replacements_ = bytes.substr(4 + units * 4);
  if (find_invalid_utf8(replacements_) != std::string_view::npos) {
    throw input_error(
        "{}: the replacements of the charsmap are not UTF-8; take the file of the model again",
        where);
  }
  for (std::size_t c = 0; c < ascii_.size(); ++c) {
    const char character = static_cast<char>(c);
    ascii_[c] = find({&character, 1});
  }
  fingerprint_ = Fingerprint().add(bytes).hex();
}

// The shortest prefix of `part` with a rule. Whatever the file holds, no place outside of it is
// read.
std::optional<std::string_view> Charsmap::find(std::string_view part) const {
  std::uint64_t node = offset(units_[0]);
  for (const char character : part) {
    const auto byte = static_cast<unsigned char>(character);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return std::nullopt;
    const std::uint32_t unit = units_[node];
    if (label(unit) != byte) return std::nullopt;
    node ^= offset(unit);
    if (node >= units_.size()) return std::nullopt;
    if (!has_leaf(unit)) continue;
    const std::size_t begin = value(units_[node]);
    const bool inside = begin < replacements_.size() &&
                        (static_cast<unsigned char>(replacements_[begin]) & 0xC0) != 0x80;
    if (!inside) return std::nullopt;
    return std::string_view(replacements_)
        .substr(begin, std::min(replacements_.find('\0', begin), replacements_.size()) - begin);
  }
  return std::nullopt;
}

void Charsmap::apply(std::string_view text, std::string& out) const {
  constexpr std::size_t longest_cluster = 5;
  const auto is_ascii = [&](std::size_t i) { return static_cast<unsigned char>(text[i]) < 0x80; };
  std::size_t at = 0;
  while (at < text.size()) {
    if (is_ascii(at) && (at + 1 == text.size() ||
                         (is_ascii(at + 1) && text[at] != '\r'))) {  // a cluster of its own
      const auto& rule = ascii_[static_cast<unsigned char>(text[at])];
      if (rule) {
        out.append(*rule);
      } else {
        out.push_back(text[at]);
      }
      ++at;
      continue;
    }
    const std::size_t end = grapheme_end(text, at);
    if (end - at <= longest_cluster) {
      if (const auto rule = find(text.substr(at, end - at))) {
        out.append(*rule);
        at = end;
        continue;
      }
    }
    while (at < end) {
      std::size_t next = at;
      next_code_point(text, next);
      const std::string_view character = text.substr(at, next - at);
      out.append(find(character).value_or(character));
      at = next;
    }
  }
}

std::string decode_base64(std::string_view text, const std::string& where) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  const std::size_t end = text.ends_with("==")  ? text.size() - 2
                          : text.ends_with('=') ? text.size() - 1
                                                : text.size();
  for (const char c : text.substr(0, end)) {
    const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (digit < 0)
      throw input_error("{}: the charsmap is not base64; take the file of the model again", where);
    bits = (bits << 6) | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>((bits >> count) & 0xFF));
    }
  }
  return out;
}

}  // namespace gpuhpc
