#pragma once
// Weights of a linear layer, packed once into the order in which the kernels read them.
// Columns come in panels of 32. fp32 panel: (K, 32). bf16 panel: for each 32 of K two AMX tiles
// (columns 0-15, then 16-31) of 16 rows x 16 columns x 2 neighbouring k: what TDPBF16PS and
// VDPBF16PS both want. Split panel: for each 32 of K the two tiles of the high halves, then those
// of the low ones. int8 panel: for each 64 of K two tiles of 16 rows x 16 columns x 4 neighbouring
// k, for TDPBSSD and VPDPBUSD. K and N are padded with zeros to 32; int8 panels have zeros up to a
// multiple of 64 of K behind them.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/kernels/bf16.hpp"

namespace gpuhpc::kernels {

inline constexpr std::int64_t kPanel = 32;
inline std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

// Zeroed memory on 64-byte lines; grows only when asked.
template <typename T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::int64_t count) { resize(count); }
  // Contents are zeros afterwards when the buffer had to grow, untouched otherwise.
  void resize(std::int64_t count) {
    if (count <= count_) return;
    data_.reset(new (std::align_val_t{64}) T[static_cast<std::size_t>(count)]());
    count_ = count;
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::int64_t size() const { return count_; }

 private:
  struct Free {
    void operator()(T* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  std::unique_ptr<T[], Free> data_;
  std::int64_t count_ = 0;
};

// Room for a float as two bf16; products of such numbers are three products of bf16: high x high,
// low x high and high x low, about 16 bits of mantissa. The halves do not stand in pairs: rows have
// 32 high halves, then their low ones, in the room of 32 numbers, and blocks of 32 x 32 weights
// likewise 1024 and 1024.
struct SplitBFloat16 {
  BFloat16 halves[2];
};
inline BFloat16* halves(SplitBFloat16* numbers) { return numbers->halves; }
inline const BFloat16* halves(const SplitBFloat16* numbers) { return numbers->halves; }
inline constexpr std::int64_t kLowOfRow = 32,
                              kLowOfBlock = 1024;  // from a high half to its low one

// Integers from -127 to 127, which stand for multiples of a scale: one for each column of weights,
// one for each row of activations.
using Int8 = std::int8_t;
inline constexpr float kHighestInt8 = 127;
inline constexpr std::int64_t kInt8Depth = 64;  // of K in a tile of int8

// Rows of int8 activations have their scale in the last four bytes of their stride: this stride
// leaves room for it. It is an odd number of 64-byte lines, so that 32 rows side by side fall on
// as many sets of the first-level cache.
inline std::int64_t int8_stride(std::int64_t columns) {
  return round_up(columns + static_cast<std::int64_t>(sizeof(float)), 64) / 64 / 2 * 128 + 64;
}
inline Int8* scale_of_row(Int8* row, std::int64_t stride) { return row + stride - sizeof(float); }
inline const Int8* scale_of_row(const Int8* row, std::int64_t stride) {
  return row + stride - sizeof(float);
}

// What the columns of a matrix of Int8 have beside their values.
struct Int8Columns {
  AlignedBuffer<float> scales;       // (columns): a weight is its value times its column's scale
  AlignedBuffer<std::int32_t> sums;  // (panel_rows() / 64, columns) of the values of 64 rows
};

struct NothingMore {};

template <typename T>  // float, BFloat16, SplitBFloat16 or Int8
struct PackedMatrix : std::conditional_t<std::is_same_v<T, Int8>, Int8Columns, NothingMore> {
  std::int64_t rows = 0, columns = 0;  // K and N, padded
  AlignedBuffer<T> values;
  std::int64_t panels() const { return columns / kPanel; }
  std::int64_t panel_rows() const {
    return std::is_same_v<T, Int8> ? round_up(rows, kInt8Depth) : rows;
  }
  // Where panel p begins at row k (a multiple of 32).
  const T* panel(std::int64_t p, std::int64_t k = 0) const {
    return values.data() + (p * panel_rows() + k) * kPanel;
  }
};

// From the weight of a linear layer as model files have it: (N, K) = (outputs, inputs).
PackedMatrix<float> pack_f32(MatrixView weight);
PackedMatrix<BFloat16> pack_bf16(MatrixView weight);
PackedMatrix<SplitBFloat16> pack_split(MatrixView weight);
// A column's scale is its largest size over 127.
PackedMatrix<Int8> pack_int8(MatrixView weight);
template <typename T>
PackedMatrix<T> pack(MatrixView weight);
template <>
inline PackedMatrix<float> pack<float>(MatrixView weight) {
  return pack_f32(weight);
}
template <>
inline PackedMatrix<BFloat16> pack<BFloat16>(MatrixView weight) {
  return pack_bf16(weight);
}
template <>
inline PackedMatrix<SplitBFloat16> pack<SplitBFloat16>(MatrixView weight) {
  return pack_split(weight);
}
template <>
inline PackedMatrix<Int8> pack<Int8>(MatrixView weight) {
  return pack_int8(weight);
}

// Element (k, n) of a packed matrix: for the reference kernels and tests.
inline std::int64_t packed_index(const PackedMatrix<float>& m, std::int64_t k, std::int64_t n) {
  return (n / kPanel * m.rows + k) * kPanel + n % kPanel;
}
inline std::int64_t packed_index(const PackedMatrix<BFloat16>& m, std::int64_t k, std::int64_t n) {
  const std::int64_t block = (n / kPanel * m.rows + k / 32 * 32) * kPanel, column = n % kPanel;
  return block + column / 16 * 512 + k % 32 / 2 * 32 + column % 16 * 2 + k % 2;
}
inline std::int64_t packed_index(const PackedMatrix<SplitBFloat16>& m, std::int64_t k,
                                 std::int64_t n) {  // of the high half
  const std::int64_t block = (n / kPanel * m.rows + k / 32 * 32) * kPanel * 2, column = n % kPanel;
  return block + column / 16 * 512 + k % 32 / 2 * 32 + column % 16 * 2 + k % 2;
}
inline std::int64_t packed_index(const PackedMatrix<Int8>& m, std::int64_t k, std::int64_t n) {
  const std::int64_t block = (n / kPanel * m.panel_rows() + k / 64 * 64) * kPanel,
                     column = n % kPanel;
  return block + column / 16 * 1024 + k % 64 / 4 * 64 + column % 16 * 4 + k % 4;
}

}  // namespace gpuhpc::kernels
