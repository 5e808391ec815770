#pragma once
// Learning rates as pure functions: how the peak follows the global batch, and a factor of the peak
// for update number `step` (from 0).
#include <cstdint>
#include <string>

namespace gpuhpc {

// How the peak rate follows the global batch: one power of batch / base batch, whatever the batch.
enum class RateRule {
  none,    // not at all
  linear,  // x batch / base batch (Goyal et al. 2017; for SGD, and what many guides say)
  // x sqrt(batch / base batch) (Malladi et al. 2022, for Adam; what LAMB's published settings
  // follow)
  sqrt,
};
RateRule rate_rule(const std::string& word);  // none | linear | sqrt
const char* name_of(RateRule rule);
// The factor that turns the rate of a batch of `base_batch` documents into that of one of `batch`.
double batch_factor(RateRule rule, double batch, double base_batch);

enum class Decay { constant, linear, cosine, inverse_sqrt };
const char* name_of(Decay decay);

struct Schedule {
  std::int64_t total_steps = 0;
  std::int64_t warmup_steps = 0;
  Decay decay = Decay::linear;
};

// `warmup` below 1 is a fraction of all steps (rounded), from 1 on a number of steps; never more
// than all of them.
std::int64_t warmup_steps(double warmup, std::int64_t total_steps);

// Rises linearly during warm-up, (step + 1) / (warm-up + 1), so that no update has rate 0; is 1 at
// the end of it; then falls towards 0, which update `total_steps` would reach. Steps beyond the end
// keep the last value's rule: 0 (constant: 1). inverse_sqrt does not know the end: sqrt((warm-up +
// 1) / (step + 1)) (Vaswani et al. 2017).
double learning_rate_multiplier(const Schedule& schedule, std::int64_t step);

}  // namespace gpuhpc
