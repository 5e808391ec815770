#pragma once
// Row-major float matrices for the rooms that need no tensors (labels, retrieval, eval).
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpuhpc {

// A view: rows x columns, row-major, not owned. Rows are contiguous.
template <typename T>
struct BasicMatrixView {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::span<T> row(std::int64_t i) const {
    return {data + i * columns, static_cast<std::size_t>(columns)};
  }
  BasicMatrixView slice(std::int64_t first, std::int64_t count) const {
    return {data + first * columns, count, columns};
  }
  operator BasicMatrixView<const T>() const { return {data, rows, columns}; }
};
using MatrixView = BasicMatrixView<const float>;
using MutableMatrixView = BasicMatrixView<float>;

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> values;  // (rows, columns)

  Matrix() = default;
  Matrix(std::int64_t row_count, std::int64_t column_count)
      : rows(row_count),
        columns(column_count),
        values(static_cast<std::size_t>(row_count * column_count)) {}
  explicit Matrix(MatrixView view)
      : rows(view.rows),
        columns(view.columns),
        values(view.data, view.data + view.rows * view.columns) {}
  std::span<float> row(std::int64_t i) {
    return {values.data() + i * columns, static_cast<std::size_t>(columns)};
  }
  std::span<const float> row(std::int64_t i) const {
    return {values.data() + i * columns, static_cast<std::size_t>(columns)};
  }
  MatrixView view() const { return {values.data(), rows, columns}; }
  MutableMatrixView view() { return {values.data(), rows, columns}; }
};

// To unit length; a row of zeros stays one.
inline void normalise(std::span<float> row) {
  double squares = 0;
  for (const float value : row) squares += static_cast<double>(value) * value;
  if (squares == 0) return;
  const double length = std::sqrt(squares);
  for (float& value : row) value = static_cast<float>(value / length);
}

// Rows of (column, value) pairs in compressed form: row i is entries [offsets[i], offsets[i+1]),
// columns ascending.
struct SparseMatrix {
  std::int64_t columns_count = 0;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> columns;
  std::vector<float> values;
  std::int64_t rows() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
};

}  // namespace gpuhpc
