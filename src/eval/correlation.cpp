#include "gpuhpc/eval/correlation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace gpuhpc {
namespace {

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> places(values.size());
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    for (std::size_t i = first; i < last; ++i)
      places[order[i]] = (static_cast<double>(first) + static_cast<double>(last) - 1) / 2;
  }
  return places;
}

}  // namespace

double pearson(std::span<const double> x, std::span<const double> y) {
  const auto count = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.) / count,
               mean_y = std::accumulate(y.begin(), y.end(), 0.) / count;
  double both = 0, square_x = 0, square_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    both += (x[i] - mean_x) * (y[i] - mean_y);
    square_x += (x[i] - mean_x) * (x[i] - mean_x);
    square_y += (y[i] - mean_y) * (y[i] - mean_y);
  }
  return both / std::sqrt(square_x * square_y);
}

double spearman(std::span<const double> x, std::span<const double> y) {
  return pearson(ranks(x), ranks(y));
}

}  // namespace gpuhpc
