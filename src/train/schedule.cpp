#include "gpuhpc/train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gpuhpc {

RateRule rate_rule(const std::string& word) {
  if (word == "linear") return RateRule::linear;
  return word == "sqrt" ? RateRule::sqrt : RateRule::none;
}

const char* name_of(RateRule rule) {
  return rule == RateRule::none ? "none" : rule == RateRule::linear ? "linear" : "sqrt";
}

const char* name_of(Decay decay) {
  constexpr const char* names[] = {"constant", "linear", "cosine", "inverse-sqrt"};
  return names[static_cast<std::size_t>(decay)];
}

double batch_factor(RateRule rule, double batch, double base_batch) {
  if (rule == RateRule::none) return 1;
  return rule == RateRule::linear ? batch / base_batch : std::sqrt(batch / base_batch);
}

std::int64_t warmup_steps(double warmup, std::int64_t total_steps) {
  const double steps = warmup < 1 ? warmup * static_cast<double>(total_steps) : warmup;
  return std::clamp(static_cast<std::int64_t>(std::llround(steps)), std::int64_t{0}, total_steps);
}

double learning_rate_multiplier(const Schedule& schedule, std::int64_t step) {
  if (step < schedule.warmup_steps)
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps + 1);
  if (schedule.decay == Decay::constant) return 1;
  if (schedule.decay == Decay::inverse_sqrt)
    return std::sqrt(static_cast<double>(schedule.warmup_steps + 1) /
                     static_cast<double>(step + 1));
  const double span =
      static_cast<double>(std::max<std::int64_t>(1, schedule.total_steps - schedule.warmup_steps));
  const double done = std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / span);
  return schedule.decay == Decay::linear ? 1 - done : .5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace gpuhpc
