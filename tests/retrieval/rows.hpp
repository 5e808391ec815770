#pragma once
// Random unit rows for the neighbour tests.
#include <cmath>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/base/random.hpp"

namespace gpuhpc::testing_fixture {

// Rows around `groups` random centres (groups 0: none), so that neighbours mean something.
inline Matrix random_rows(std::int64_t rows, std::int64_t columns, std::int64_t groups = 0) {
  Matrix centres(groups, columns), out(rows, columns);
  RandomStream random(7, static_cast<std::uint64_t>(rows + columns));
  for (float& value : centres.values) value = static_cast<float>(random.uniform() - 0.5);
  for (std::int64_t i = 0; i < rows; ++i) {
    double squares = 0;
    const std::int64_t group =
        groups > 0 ? static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(groups)))
                   : 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      float value = static_cast<float>(random.uniform() - 0.5);
      if (groups > 0) value = 0.6F * value + centres.row(group)[static_cast<std::size_t>(j)];
      out.row(i)[static_cast<std::size_t>(j)] = value;
      squares += static_cast<double>(value * value);
    }
    for (float& value : out.row(i)) value = static_cast<float>(value / std::sqrt(squares));
  }
  return out;
}

inline SparseMatrix sparse_rows(const Matrix& dense) {
  SparseMatrix out;
  out.columns_count = dense.columns;
  for (std::int64_t i = 0; i < dense.rows; ++i) {
    for (std::int64_t j = 0; j < dense.columns; ++j) {
      const float value = dense.row(i)[static_cast<std::size_t>(j)];
      if (value > 0) {
        out.columns.push_back(static_cast<std::int32_t>(j));
        out.values.push_back(value);
      }
    }
    out.offsets.push_back(static_cast<std::int64_t>(out.columns.size()));
  }
  return out;
}

}  // namespace gpuhpc::testing_fixture
