#include "gpuhpc/labels/self_training.hpp"

namespace gpuhpc {

void add_probability_sums(MatrixView probabilities, FixedSums& sums) {
  for (std::int64_t i = 0; i < probabilities.rows; ++i) {
    const auto row = probabilities.row(i);
    for (std::int64_t c = 0; c < probabilities.columns; ++c) {
      const double p = row[static_cast<std::size_t>(c)];
      sums.add(0, c, p);
      sums.add(1, c, 1 - p);
    }
  }
}

void self_training_targets(MatrixView probabilities, const FixedSums& sums,
                           MutableMatrixView targets) {
  for (std::int64_t c = 0; c < probabilities.columns; ++c) {
    const double f = sums.value(0, c), g = sums.value(1, c);
    for (std::int64_t i = 0; i < probabilities.rows; ++i) {
      const double p = probabilities.row(i)[static_cast<std::size_t>(c)];
      // A class that nobody (or everybody) has keeps it so: its other sum is 0, and so is that
      // side's p.
      const double yes = f > 0 ? p * p / f : 0, no = g > 0 ? (1 - p) * (1 - p) / g : 0;
      targets.row(i)[static_cast<std::size_t>(c)] = static_cast<float>(yes / (yes + no));
    }
  }
}

}  // namespace gpuhpc
