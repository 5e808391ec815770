#pragma once
// First pass over a piece of text: lower-cases ASCII letters and marks, bit by bit, where tokens
// begin and end.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace gpuhpc {

// A token is one ASCII punctuation byte, or a run of bytes that are neither ASCII punctuation nor
// ASCII space. A run with a control character or a byte above 0x7F is "odd": its words depend on
// Unicode and on the settings.
class Scan {
 public:
  static constexpr std::size_t block = 64;

  void run(std::string_view piece, bool lowercase);

  bool any_odd() const { return any_odd_; }
  std::size_t blocks() const { return blocks_; }
  std::uint64_t starts(std::size_t b) const { return starts_[b]; }
  // Bytes may be read up to 16 beyond the piece.
  const char* text() const { return text_.data(); }
  // End of the token that begins at `position`.
  std::size_t end_of(std::size_t position) const {
    const std::uint64_t window = bits_from(ends_, position + 1);
    return window != 0 ? position + 1 + static_cast<std::size_t>(std::countr_zero(window))
                       : far_end_of(position + 1);
  }
  bool is_odd(std::size_t begin, std::size_t end) const {
    if (end - begin > 56) return far_odd(begin, end);
    return (bits_from(odd_, begin) & ((std::uint64_t{1} << (end - begin)) - 1)) != 0;
  }

 private:
  // At least 57 bits from bit `position` on; little-endian machines only, as everything here.
  static std::uint64_t bits_from(const std::vector<std::uint64_t>& bits, std::size_t position) {
    std::uint64_t window;
    std::memcpy(&window, reinterpret_cast<const char*>(bits.data()) + position / 8, sizeof(window));
    return window >> (position % 8);
  }
  std::size_t far_end_of(std::size_t position) const;
  bool far_odd(std::size_t begin, std::size_t end) const;

  std::vector<char> text_;
  std::vector<std::uint64_t> starts_, ends_, odd_;
  std::size_t blocks_ = 0;
  bool any_odd_ = false;
};

constexpr bool is_ascii_delimiter(char c) {
  const auto u = static_cast<unsigned char>(c);
  const auto folded = static_cast<unsigned char>(u | 0x20);
  if (u == '\t' || u == '\n' || u == '\r') return true;
  return u >= 0x20 && u < 0x7F && !(u >= '0' && u <= '9') && !(folded >= 'a' && folded <= 'z');
}

}  // namespace gpuhpc
