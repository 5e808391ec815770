#pragma once
// Rows of activations of every type for the kernels' tests, and what is needed to compare them with
// doubles.
#include <algorithm>
#include <cmath>
#include <cstring>
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
                         : std::is_same_v<T, Int8>          ? 0  // of a row, not of a value
                                                            : 7.9e-3;

// Of sums of products with weights of W, at the sizes below.
template <typename W>
constexpr double kSlack = std::is_same_v<W, SplitBFloat16> ? 4e-5 : 5e-6;

template <typename T>
struct Rows {
  std::int64_t stride;
  AlignedBuffer<T> values;
  Rows(std::int64_t rows, std::int64_t columns)
      : stride(std::is_same_v<T, Int8> ? int8_stride(columns) : round_up(columns, 32)),
        values(round_up(rows, 32) * stride) {}
  T& at(std::int64_t r, std::int64_t c) { return values.data()[r * stride + c]; }
  Rows copy() const {
    Rows result(1, 1);
    result.stride = stride;
    result.values.resize(values.size());
    std::copy_n(values.data(), values.size(), result.values.data());
    return result;
  }
};

template <typename T>
double value(Rows<T>& rows, std::int64_t r, std::int64_t c) {
  if constexpr (std::is_same_v<T, SplitBFloat16>) {
    const BFloat16* at = halves(&rows.at(r, c / 32 * 32)) + c % 32;
    return static_cast<double>(to_float(at[0])) + to_float(at[kLowOfRow]);
  } else if constexpr (std::is_same_v<T, Int8>) {
    float scale;
    std::memcpy(&scale, scale_of_row(&rows.at(r, 0), rows.stride), sizeof scale);
    return static_cast<double>(rows.at(r, c)) * scale;
  } else {
    return to_float(rows.at(r, c));
  }
}

// Of a row of multiples of a power of two, from -127 to 127 times it: that power.
inline float unit_of(const BFloat16* row, std::int64_t columns) {
  float largest = 0;
  for (std::int64_t c = 0; c < columns; ++c)
    largest = std::max(largest, std::abs(to_float(row[c])));
  return largest / 127;
}

// As linear() reads them. Int8: of rows whose integers are certain (Random::input).
template <typename W>
requires std::is_same_v<W, Int8> Rows<Int8> for_linear(const Rows<BFloat16>& rows) {
  Rows<Int8> result(rows.values.size() / rows.stride, rows.stride);
  std::fill_n(result.values.data(), result.values.size(), Int8{77});  // what means nothing
  for (std::int64_t r = 0; r < rows.values.size() / rows.stride; ++r) {
    const BFloat16* row = rows.values.data() + r * rows.stride;
    const float unit = unit_of(row, rows.stride);
    for (std::int64_t c = 0; c < rows.stride; ++c)
      result.at(r, c) = unit == 0 ? Int8{0} : static_cast<Int8>(to_float(row[c]) / unit);
    std::memcpy(scale_of_row(&result.at(r, 0), result.stride), &unit, sizeof unit);
  }
  return result;
}
template <typename W, typename T>
requires(!std::is_same_v<W, Int8>) Rows<W> for_linear(const Rows<T>& rows) {
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
  // Rows for products with weights of W. Int8: multiples of a power of two that differs from row to
  // row, from -127 to 127 times it for linear(), from -90 to 165 times it for accumulate(), so that
  // no rounding decides about an integer.
  enum class For { linear, accumulate };
  template <typename T, typename W>
  Rows<T> input(std::int64_t count, std::int64_t columns, For use) {
    Rows<T> all = rows<T>(count, columns);
    if constexpr (std::is_same_v<W, Int8>)
      for (std::int64_t r = 0; r < count; ++r) {
        const float unit = std::ldexp(1.0F, static_cast<int>(r % 3) - 6);
        const float low = use == For::linear ? -127 : -90, high = use == For::linear ? 127 : 165;
        for (std::int64_t c = 0; c < columns; ++c)
          all.at(r, c) =
              to_bf16(unit * std::clamp(std::round(to_float(all.at(r, c)) * 40), low, high));
        all.at(r, r * 7 % columns) = to_bf16(low * unit);
        all.at(r, (r * 7 + 5) % columns) = to_bf16(high * unit);
      }
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

template <typename W>
double weight_at(const PackedMatrix<W>& weight, std::int64_t k, std::int64_t n) {
  const std::int64_t i = packed_index(weight, k, n);
  if constexpr (std::is_same_v<W, SplitBFloat16>)
    return static_cast<double>(to_float(halves(weight.values.data())[i])) +
           to_float(halves(weight.values.data())[i + kLowOfBlock]);
  else if constexpr (std::is_same_v<W, Int8>)
    return static_cast<double>(weight.values.data()[i]) * weight.scales.data()[n];
  else
    return to_float(weight.values.data()[i]);
}

template <typename T, typename W>
double product(Rows<T>& input, std::int64_t row, const PackedMatrix<W>& weight, std::int64_t n) {
  double sum = 0;
  for (std::int64_t k = 0; k < weight.rows; ++k)
    sum += to_float(input.at(row, k)) * weight_at(weight, k, n);
  return sum;
}

}  // namespace gpuhpc::kernels
