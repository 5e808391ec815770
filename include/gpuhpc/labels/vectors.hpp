#pragma once
// Plain arithmetic on rows that gives the same bits on every machine and any number of ranks: dot
// products in one fixed order without fused multiply-add, and sums over documents in 64-bit fixed
// point, whose order does not matter.
#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"

namespace gpuhpc {

// A (rows, columns) table of sums in units of 2^-31: |sum| < 2^32, rounding 2.3e-10 a call. Ranks
// all-reduce words() (sum).
class FixedSums {
 public:
  FixedSums(std::int64_t rows, std::int64_t columns)
      : rows_(rows), columns_(columns), words_(static_cast<std::size_t>(rows * columns)) {}
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::span<std::int64_t> words() { return words_; }
  std::span<const std::int64_t> words() const { return words_; }
  void add(std::int64_t row, std::int64_t column, double value);
  void add_row(std::int64_t row,
               std::span<const float> values);  // each value is rounded on its own: order-free
  double value(std::int64_t row, std::int64_t column) const;
  Matrix matrix() const;  // (rows, columns)

 private:
  std::int64_t rows_, columns_;
  std::vector<std::int64_t> words_;
};

double dot(std::span<const float> a, std::span<const float> b);  // double accumulation
void normalise_rows(MutableMatrixView rows);

// products (a.rows, b.rows) = a b^T, float accumulation in 4 fixed lanes.
void multiply_transposed(MatrixView a, MatrixView b, MutableMatrixView products);

// Sum over the rows into row 0 of sums (1, width).
void add_rows(MatrixView rows, FixedSums& sums);
// Sum of column 0.. over the block's rows: sums (1, columns). The same as add_rows; the name says
// what f_k is. Row 0 / count as float: (width).
std::vector<float> mean_of(const FixedSums& sums, std::int64_t count);

// Quality recipe, step 2: the share of the mean of unit rows that centring takes off: `wanted`, or
// more, so that what stays is no longer than a quarter of the spread around it, sqrt(1 - |mean|^2).
// Else all classes look alike to encoders whose cosines are all large (E5, BGE). 0 takes off
// nothing.
double centring_share(std::span<const float> mean, double wanted);
// That share of the mean (H).
std::vector<float> common_part(std::span<const float> mean, double wanted);
// Every row x becomes unit(x - common).
void centre_rows(MutableMatrixView rows, std::span<const float> common);
// Takes the common part off all rows, which are in memory (classes).
void centre_all(MutableMatrixView rows, double wanted);

}  // namespace gpuhpc
