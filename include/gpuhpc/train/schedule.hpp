#pragma once
// Learning-rate rules as pure functions: a factor of the group's own rate for update number `step` (from 0).
#include <cstdint>

namespace gpuhpc {

enum class Decay { constant, linear, cosine };

struct Schedule {
  std::int64_t total_steps = 0;
  std::int64_t warmup_steps = 0;
  Decay decay = Decay::linear;
};

// `warmup` below 1 is a fraction of all steps (rounded), from 1 on a number of steps; never more than all of them.
std::int64_t warmup_steps(double warmup, std::int64_t total_steps);

// Rises linearly during warm-up, (step + 1) / (warm-up + 1), so that no update has rate 0; is 1 at the end of it; then
// falls towards 0, which update `total_steps` would reach. Steps beyond the end keep the last value's rule: 0 (constant: 1).
double rate_factor(const Schedule& schedule, std::int64_t step);

}  // namespace gpuhpc
