#pragma once
// The factor of the loss in fp16 training (Micikevicius et al., ICLR 2018): large enough that small
// gradients do not vanish, halved when they overflow, doubled after many finite updates. It moves
// by what all ranks agreed on, so it is the same on all.
#include <algorithm>
#include <cstdint>

namespace gpuhpc {

struct LossScalerOptions {
  double scale = 1;  // at the start
  double growth = 2, backoff = .5;
  double largest = 1 << 24;
  std::int64_t growth_interval = 500;  // finite updates in a row
  bool dynamic = false;                // false: the scale stays
};

class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options = {})
      : options_(options), scale_(options.scale) {}
  double scale() const { return scale_; }
  std::int64_t good_steps() const {
    return good_steps_;
  }  // finite updates since the scale last changed
  bool dynamic() const { return options_.dynamic; }

  // After each step: were the gradients of all ranks finite?
  void update(bool finite) {
    if (!options_.dynamic) return;
    if (!finite) {
      scale_ *= options_.backoff;
      good_steps_ = 0;
    } else if (++good_steps_ >= options_.growth_interval) {
      scale_ = std::min(options_.largest, scale_ * options_.growth);
      good_steps_ = 0;
    }
  }
  // From a checkpoint; one that was written in another precision leaves the scale as it is.
  void restore(double scale, std::int64_t good_steps) {
    if (!options_.dynamic || good_steps < 0) return;
    scale_ = scale;
    good_steps_ = good_steps;
  }

 private:
  LossScalerOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0;
};

}  // namespace gpuhpc
