#include "gpuhpc/labels/smoothing.hpp"

#include <algorithm>
#include <vector>

namespace gpuhpc {

void smooth_rows(MatrixView own, const SparseMatrix& neighbours, MatrixView all, double keep,
                 MutableMatrixView smoothed) {
  const auto mine = static_cast<float>(keep), theirs = static_cast<float>(1 - keep);
  std::vector<float> sum(static_cast<std::size_t>(own.columns));
  for (std::int64_t i = 0; i < own.rows; ++i) {
    const auto first = neighbours.offsets[static_cast<std::size_t>(i)],
               last = neighbours.offsets[static_cast<std::size_t>(i) + 1];
    const auto row = own.row(i);
    const auto out = smoothed.row(i);
    if (first == last) {
      std::copy(row.begin(), row.end(), out.begin());
      continue;
    }
    std::fill(sum.begin(), sum.end(), 0.f);
    for (auto entry = first; entry < last; ++entry) {
      const float weight = neighbours.values[static_cast<std::size_t>(entry)];
      const float* const values =
          all.data + neighbours.columns[static_cast<std::size_t>(entry)] * all.columns;
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += weight * values[k];
    }
    for (std::size_t k = 0; k < sum.size(); ++k) out[k] = mine * row[k] + theirs * sum[k];
  }
}

void average_into(MutableMatrixView first, MatrixView second) {
  const std::int64_t count = first.rows * first.columns;
  for (std::int64_t i = 0; i < count; ++i) first.data[i] = .5f * (first.data[i] + second.data[i]);
}

}  // namespace gpuhpc
