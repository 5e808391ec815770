#pragma once
// Private to room train: make_optimizer() makes it.
#include "gpuhpc/train/optimizer.hpp"

namespace gpuhpc {

// Shazeer and Stern (ICML 2018) as T5 was trained: the mean squared gradient of a matrix is known
// by its rows' and its columns' means, a step is relative to the tensor's own root mean square (at
// least 1e-3) and damped where it would be larger than 1; no first moment. Over the whole arena
// alone: configuration_error for shares of it.
class Adafactor final : public Optimizer {
 public:
  Adafactor(ParameterArena& arena, const OptimizerOptions& options, std::vector<Range> ranges);
  void step(double learning_rate_multiplier, double gradient_scale) override;
};

}  // namespace gpuhpc
