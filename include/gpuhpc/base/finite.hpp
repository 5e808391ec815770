#pragma once
// Vectors and scores are finite where they are made: nothing behind that (a comparison, a sort, a
// minimum) has to ask.
#include <cmath>
#include <optional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/matrix.hpp"

namespace gpuhpc {

struct MatrixPlace {
  std::int64_t row = 0, column = 0;
};
// The first value that is NaN or infinite.
inline std::optional<MatrixPlace> find_not_finite(MatrixView matrix) {
  for (std::int64_t i = 0; i < matrix.rows * matrix.columns; ++i)
    if (!std::isfinite(matrix.data[i])) return MatrixPlace{i / matrix.columns, i % matrix.columns};
  return std::nullopt;
}

template <typename... Args>
Error not_finite_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::diverged, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace gpuhpc
