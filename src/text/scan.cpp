#include "scan.hpp"

#include <algorithm>

namespace gpuhpc {
namespace {

using Bytes = unsigned char
    __attribute__((vector_size(16)));  // the compiler's portable vectors: SSE2, NEON, ...

struct Marks {
  std::uint64_t delimiter = 0, punctuation = 0, odd = 0;
};

// One bit a byte, from bytes that are 0x00 or 0xFF.
std::uint64_t bit_mask(const unsigned char* flags) {
  std::uint64_t mask = 0;
  for (int i = 0; i < 8; ++i) {
    std::uint64_t eight;
    std::memcpy(&eight, flags + 8 * i, 8);
    mask |= ((eight & 0x0101010101010101u) * 0x0102040810204080u >> 56) << (8 * i);
  }
  return mask;
}

Marks mark_block(const char* in, char* out, unsigned char case_bit) {
  alignas(16) unsigned char delimiter[64], punctuation[64], odd[64];
  for (int i = 0; i < 64; i += 16) {
    Bytes x;
    std::memcpy(&x, in + i, 16);
    const Bytes folded = x | 0x20;
    const Bytes letter = reinterpret_cast<Bytes>((folded - 'a') < 26);
    const Bytes digit = reinterpret_cast<Bytes>((x - '0') < 10);
    const Bytes space =
        reinterpret_cast<Bytes>((x == ' ') | (x == '\t') | (x == '\n') | (x == '\r'));
    const Bytes visible = reinterpret_cast<Bytes>((x - 0x21) < 0x5E);
    const Bytes lowered = x | (letter & case_bit);
    const Bytes marks = visible & ~(letter | digit);
    const Bytes cut = marks | space, rest = ~(visible | space);
    std::memcpy(out + i, &lowered, 16);
    std::memcpy(punctuation + i, &marks, 16);
    std::memcpy(delimiter + i, &cut, 16);
    std::memcpy(odd + i, &rest, 16);
  }
  return {bit_mask(delimiter), bit_mask(punctuation), bit_mask(odd)};
}

}  // namespace

void Scan::run(std::string_view piece, bool lowercase) {
  blocks_ = (piece.size() + block - 1) / block;
  if (text_.size() < blocks_ * block + block) text_.resize(blocks_ * block + block);
  if (starts_.size() < blocks_ + 2)
    starts_.resize(blocks_ + 2), ends_.resize(blocks_ + 2), odd_.resize(blocks_ + 2);
  const unsigned char case_bit = lowercase ? 0x20 : 0;
  std::uint64_t before_word = 0, before_punctuation = 0,
                all_odd = 0;  // last bit of the block before
  for (std::size_t b = 0; b < blocks_; ++b) {
    const char* in = piece.data() + b * block;
    char padded[block];
    if (piece.size() - b * block < block) {
      std::memset(padded, ' ', block);
      std::memcpy(padded, in, piece.size() - b * block);
      in = padded;
    }
    const Marks marks = mark_block(in, text_.data() + b * block, case_bit);
    const std::uint64_t word = ~marks.delimiter;
    starts_[b] = marks.punctuation | (word & ~(word << 1 | before_word));
    ends_[b] = marks.delimiter | marks.punctuation << 1 | before_punctuation;
    odd_[b] = marks.odd;
    all_odd |= marks.odd;
    before_word = word >> 63;
    before_punctuation = marks.punctuation >> 63;
  }
  any_odd_ = all_odd != 0;
  for (std::size_t b = blocks_; b < blocks_ + 2; ++b) ends_[b] = ~std::uint64_t{0}, odd_[b] = 0;
}

std::size_t Scan::far_end_of(std::size_t position) const {
  std::size_t b = position / block;
  std::uint64_t bits = ends_[b] & (~std::uint64_t{0} << (position % block));
  while (bits == 0) bits = ends_[++b];
  return b * block + static_cast<std::size_t>(std::countr_zero(bits));
}

bool Scan::far_odd(std::size_t begin, std::size_t end) const {
  for (std::size_t at = begin; at < end; at += 56) {
    const std::size_t length = std::min<std::size_t>(56, end - at);
    if ((bits_from(odd_, at) & ((std::uint64_t{1} << length) - 1)) != 0) return true;
  }
  return false;
}

}  // namespace gpuhpc
