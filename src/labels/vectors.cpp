#include "gpuhpc/labels/vectors.hpp"

#include <algorithm>
#include <cmath>

#include "lanes.hpp"

namespace gpuhpc {
namespace {

constexpr double fixed_unit = 0x1.0p-31, fixed_scale = 0x1.0p31;

// R rows of a against C rows of b: (R, C) dot products over `width`, each in four lanes and a tail.
template <int R, int C>
void multiply_tile(const float* a, const float* b, std::int64_t width, float* products,
                   std::int64_t stride) {
  Lanes sums[R][C] = {};
  const std::int64_t whole = width / 4 * 4;
  for (std::int64_t j = 0; j < whole; j += 4) {
    Lanes right[C];
    for (int c = 0; c < C; ++c) right[c] = load(b + c * width + j);
    for (int r = 0; r < R; ++r) {
      const Lanes left = load(a + r * width + j);
      for (int c = 0; c < C; ++c) sums[r][c] += left * right[c];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) {
      float sum = (sums[r][c][0] + sums[r][c][1]) + (sums[r][c][2] + sums[r][c][3]);
      for (std::int64_t j = whole; j < width; ++j) sum += a[r * width + j] * b[c * width + j];
      products[r * stride + c] = sum;
    }
}

template <int R>
void multiply_rows(const float* a, MatrixView b, float* products) {
  std::int64_t c = 0;
  for (; c + 2 <= b.rows; c += 2)
    multiply_tile<R, 2>(a, b.data + c * b.columns, b.columns, products + c, b.rows);
  for (; c < b.rows; ++c)
    multiply_tile<R, 1>(a, b.data + c * b.columns, b.columns, products + c, b.rows);
}

}  // namespace

void FixedSums::add(std::int64_t row, std::int64_t column, double value) {
  words_[static_cast<std::size_t>(row * columns_ + column)] += std::llrint(value * fixed_scale);
}

void FixedSums::add_row(std::int64_t row, std::span<const float> values) {
  std::int64_t* at = words_.data() + row * columns_;
  for (std::size_t j = 0; j < values.size(); ++j)
    at[j] += std::llrint(static_cast<double>(values[j]) * fixed_scale);
}

double FixedSums::value(std::int64_t row, std::int64_t column) const {
  return static_cast<double>(words_[static_cast<std::size_t>(row * columns_ + column)]) *
         fixed_unit;
}

Matrix FixedSums::matrix() const {
  Matrix sums(rows_, columns_);
  for (std::size_t i = 0; i < words_.size(); ++i)
    sums.values[i] = static_cast<float>(static_cast<double>(words_[i]) * fixed_unit);
  return sums;
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j)
    sum += static_cast<double>(a[j]) * static_cast<double>(b[j]);
  return sum;
}

void normalise_rows(MutableMatrixView rows) {
  for (std::int64_t i = 0; i < rows.rows; ++i) normalise(rows.row(i));
}

void multiply_transposed(MatrixView a, MatrixView b, MutableMatrixView products) {
  // b is walked once for four rows of a: 500 classes of 384 floats stay in the second-level cache.
  std::int64_t r = 0;
  for (; r + 4 <= a.rows; r += 4)
    multiply_rows<4>(a.data + r * a.columns, b, products.data + r * b.rows);
  for (; r < a.rows; ++r) multiply_rows<1>(a.data + r * a.columns, b, products.data + r * b.rows);
}

void add_rows(MatrixView rows, FixedSums& sums) {
  for (std::int64_t i = 0; i < rows.rows; ++i) sums.add_row(0, rows.row(i));
}

std::vector<float> mean_of(const FixedSums& sums, std::int64_t count) {
  std::vector<float> mean(static_cast<std::size_t>(sums.columns()));
  if (count == 0) return mean;
  for (std::int64_t j = 0; j < sums.columns(); ++j)
    mean[static_cast<std::size_t>(j)] =
        static_cast<float>(sums.value(0, j) / static_cast<double>(count));
  return mean;
}

double centring_share(std::span<const float> mean, double wanted) {
  constexpr double left = .25;  // of the spread, at most
  const double square = std::min(dot(mean, mean), 1.);
  // One text, or texts that are alike, have no spread: more than wanted would leave rounding alone.
  if (wanted == 0 || square == 0 || 1 - square < 1e-5) return wanted;
  return std::max(wanted, 1 - left * std::sqrt((1 - square) / square));
}

std::vector<float> common_part(std::span<const float> mean, double wanted) {
  const double share = centring_share(mean, wanted);
  std::vector<float> common(mean.begin(), mean.end());
  for (float& value : common) value = static_cast<float>(share * value);
  return common;
}

void centre_rows(MutableMatrixView rows, std::span<const float> common) {
  std::vector<double> centred(common.size());
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    const auto row = rows.row(i);
    double square = 0;
    for (std::size_t j = 0; j < centred.size(); ++j) {
      centred[j] = static_cast<double>(row[j]) - static_cast<double>(common[j]);
      square += centred[j] * centred[j];
    }
    const double length = square > 0 ? std::sqrt(square) : 1;
    for (std::size_t j = 0; j < centred.size(); ++j)
      row[j] = static_cast<float>(centred[j] / length);
  }
}

void centre_all(MutableMatrixView rows, double wanted) {
  FixedSums sums(1, rows.columns);
  add_rows(rows, sums);
  centre_rows(rows, common_part(mean_of(sums, rows.rows), wanted));
}

}  // namespace gpuhpc
