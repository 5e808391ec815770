#pragma once
// Rows of activations of every type for the kernels' tests, and what is needed to compare them with
// doubles.
#include <cmath>
#include <random>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/kernels/encoder_kernels.hpp"

namespace gpuhpc::kernels {

template <typename T>
T rounded(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return to_bf16(value);
}

// Rounds of one step of T at 1.
template <typename T>
constexpr double kStep = std::is_same_v<T, float>           ? 1.2e-7
                         : std::is_same_v<T, SplitBFloat16> ? 1.6e-5
                                                            : 7.9e-3;

// Of sums of products with weights of W, at the sizes below.
template <typename W>
constexpr double kSlack = std::is_same_v<W, SplitBFloat16> ? 4e-5 : 5e-6;

template <typename T>
struct Rows {
  std::int64_t stride;
  AlignedBuffer<T> values;
  Rows(std::int64_t rows, std::int64_t columns)
      : stride(round_up(columns, 32)), values(round_up(rows, 32) * round_up(columns, 32)) {}
  T& at(std::int64_t r, std::int64_t c) { return values.data()[r * stride + c]; }
};

template <typename T>
double value(Rows<T>& rows, std::int64_t r, std::int64_t c) {
  if constexpr (std::is_same_v<T, SplitBFloat16>) {
    const BFloat16* at = halves(&rows.at(r, c / 32 * 32)) + c % 32;
    return static_cast<double>(to_float(at[0])) + to_float(at[kLowOfRow]);
  } else {
    return to_float(rows.at(r, c));
  }
}

// As linear() reads them.
template <typename W, typename T>
Rows<W> for_linear(const Rows<T>& rows) {
  Rows<W> result(rows.values.size() / rows.stride, rows.stride);
  for (std::int64_t i = 0; i < rows.values.size(); ++i) {
    if constexpr (std::is_same_v<T, W>) {
      result.values.data()[i] = rows.values.data()[i];
    } else {
      const Bf16Halves both = split(rows.values.data()[i]);
      BFloat16* at = halves(result.values.data()) + i / 32 * 64 + i % 32;
      at[0] = both.high;
      at[kLowOfRow] = both.low;
    }
  }
  return result;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  float normal(float scale = 1) { return scale * normal_(engine_); }
  template <typename T>
  Rows<T> rows(std::int64_t count, std::int64_t columns, float scale = 1) {
    Rows<T> all(count, columns);
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t c = 0; c < columns; ++c) all.at(r, c) = rounded<T>(normal(scale));
    return all;
  }
  Matrix matrix(std::int64_t rows, std::int64_t columns, float scale) {
    Matrix m(rows, columns);
    for (float& v : m.values) v = normal(scale);
    return m;
  }
  std::vector<float> vector(std::int64_t count) {
    std::vector<float> all(static_cast<std::size_t>(count));
    for (float& v : all) v = normal();
    return all;
  }

 private:
  std::mt19937 engine_;
  std::normal_distribution<float> normal_;
};

}  // namespace gpuhpc::kernels
