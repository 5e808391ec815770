#pragma once
// Vectors in fewer bits, the same bits as sentence_transformers.quantization.quantize_embeddings
// makes of the same vectors.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gpuhpc/base/matrix.hpp"

namespace gpuhpc {

// int8, uint8: each value's place among 255 equal steps of its column's range. binary, ubinary: one
// bit a value, 1 above 0, eight to a number, the first on top; the last number is filled with
// zeros.
enum class Quantization { none, int8, uint8, binary, ubinary };
Quantization parse_quantization(std::string_view name);  // usage_error: there is none
constexpr bool needs_ranges(Quantization kind) {
  return kind == Quantization::int8 || kind == Quantization::uint8;
}

// The least and the largest value of each column of the vectors that were added.
struct ColumnRanges {
  std::vector<float> low, high;
  std::int64_t rows = 0;
  void add(MatrixView vectors);
};

// One vector; `ranges` of its columns where they are needed. A column whose range is one value has
// steps of 1.
std::vector<int> quantize(std::span<const float> vector, Quantization kind,
                          const ColumnRanges& ranges);

}  // namespace gpuhpc
