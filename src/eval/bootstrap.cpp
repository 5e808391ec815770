#include "gpuhpc/eval/bootstrap.hpp"

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/random.hpp"

namespace gpuhpc {

void draw_counts(std::uint64_t seed, std::int64_t resample, std::int64_t documents,
                 std::vector<std::uint16_t>& counts) {
  counts.assign(static_cast<std::size_t>(documents), 0);
  RandomStream random(seed, static_cast<std::uint64_t>(resample));
  const auto bound = static_cast<std::uint64_t>(documents);
  // Two draws of 32 bits a number, scaled by multiplication: the bias is below documents / 2^32.
  for (std::int64_t i = 0; i < documents; i += 2) {
    const std::uint64_t bits = random.next();
    ++counts[((bits & 0xffffffffu) * bound) >> 32];
    if (i + 1 < documents) ++counts[((bits >> 32) * bound) >> 32];
  }
}

double quantile(std::span<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - std::floor(position)) * (values[above] - values[below]);
}

}  // namespace gpuhpc
