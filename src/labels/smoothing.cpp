#include "gpuhpc/labels/smoothing.hpp"

#include <algorithm>
#include <numeric>

namespace gpuhpc {
namespace {

// smoothed = keep * own + (1 - keep) * sum of weight * add(neighbour row).
template <typename AddRow>
void smooth(MatrixView own, const SparseMatrix& neighbours, double keep, MutableMatrixView smoothed, AddRow add_row) {
  const auto mine = static_cast<float>(keep), theirs = static_cast<float>(1 - keep);
  std::vector<float> sum(static_cast<std::size_t>(own.columns));
  for (std::int64_t i = 0; i < own.rows; ++i) {
    const auto first = neighbours.offsets[static_cast<std::size_t>(i)], last = neighbours.offsets[static_cast<std::size_t>(i) + 1];
    const auto row = own.row(i);
    const auto out = smoothed.row(i);
    if (first == last) {
      std::copy(row.begin(), row.end(), out.begin());
      continue;
    }
    std::fill(sum.begin(), sum.end(), 0.f);
    for (auto entry = first; entry < last; ++entry)
      add_row(neighbours.columns[static_cast<std::size_t>(entry)], neighbours.values[static_cast<std::size_t>(entry)], sum);
    for (std::size_t k = 0; k < sum.size(); ++k) out[k] = mine * row[k] + theirs * sum[k];
  }
}

}  // namespace

void smooth_rows(MatrixView own, const SparseMatrix& neighbours, MatrixView all, double keep, MutableMatrixView smoothed) {
  smooth(own, neighbours, keep, smoothed, [&](std::int32_t neighbour, float weight, std::vector<float>& sum) {
    const float* const row = all.data + neighbour * all.columns;
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += weight * row[k];
  });
}

void smooth_rows(MatrixView own, const SparseMatrix& neighbours, const TopPosteriorView& all, double keep, MutableMatrixView smoothed) {
  smooth(own, neighbours, keep, smoothed, [&](std::int32_t neighbour, float weight, std::vector<float>& sum) {
    const std::int64_t first = neighbour * all.width;
    for (std::int64_t e = first; e < first + all.width && all.path[e] >= 0; ++e) sum[static_cast<std::size_t>(all.path[e])] += weight * all.value[e];
  });
}

TopPosteriorView view_of(const TopPosterior& posterior) {
  return {posterior.paths, posterior.width, posterior.rows(), posterior.path.data(), posterior.value.data()};
}

void append_top(MatrixView posterior, TopPosterior& top) {
  const std::int64_t kept = std::min(top.width, posterior.columns);
  std::vector<std::int32_t> order(static_cast<std::size_t>(posterior.columns));
  for (std::int64_t i = 0; i < posterior.rows; ++i) {
    const auto row = posterior.row(i);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](std::int32_t a, std::int32_t b) {
      const float x = row[static_cast<std::size_t>(a)], y = row[static_cast<std::size_t>(b)];
      return x != y ? x > y : a < b;
    });
    double whole = 0, part = 0;
    for (const float value : row) whole += value;
    for (std::int64_t e = 0; e < kept; ++e) part += row[static_cast<std::size_t>(order[static_cast<std::size_t>(e)])];
    const double scale = part > 0 ? whole / part : 1;
    for (std::int64_t e = 0; e < top.width; ++e) {
      const std::int32_t path = e < kept ? order[static_cast<std::size_t>(e)] : -1;
      top.path.push_back(path);
      top.value.push_back(path < 0 ? 0.f : static_cast<float>(row[static_cast<std::size_t>(path)] * scale));
    }
  }
}

void expand_row(const TopPosteriorView& posterior, std::int64_t row, std::span<float> full) {
  std::fill(full.begin(), full.end(), 0.f);
  const std::int64_t first = row * posterior.width;
  for (std::int64_t e = first; e < first + posterior.width && posterior.path[e] >= 0; ++e)
    full[static_cast<std::size_t>(posterior.path[e])] = posterior.value[e];
}

void average_into(MutableMatrixView first, MatrixView second) {
  const std::int64_t count = first.rows * first.columns;
  for (std::int64_t i = 0; i < count; ++i) first.data[i] = .5f * (first.data[i] + second.data[i]);
}

}  // namespace gpuhpc
