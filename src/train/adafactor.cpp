#include "adafactor.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/outer.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

Adafactor::Adafactor(ParameterArena& arena, const OptimizerOptions& options,
                     std::vector<Range> ranges)
    : Optimizer(arena, options, std::move(ranges)) {
  if (ranges_.size() != 1 || ranges_[0].first != 0 || ranges_[0].last != arena.capacity())
    throw configuration_error(
        "--train.optimizer adafactor looks at whole tensors, of which --parallel.strategy zero1 "
        "gives each rank a part; take --parallel.strategy ddp, or adamw");
}

void Adafactor::step(double learning_rate_multiplier, double gradient_scale) {
  constexpr double tiny = 1e-30, least_size = 1e-3, most_change = 1;
  const c10::NoGradGuard no_grad;
  const double decay = 1 - std::pow(static_cast<double>(++steps_), -.8);
  const auto root_mean_square = [](const at::Tensor& values) {
    return std::sqrt(square_sum(values) / static_cast<double>(values.numel()));
  };
  for (const ParameterArena::Entry& entry : arena_.entries()) {
    const std::int64_t first = entry.range.first, size = entry.range.size();
    const auto& group =
        *std::ranges::find_if(arena_.groups(), [&](const auto& g) { return first < g.range.last; });
    const at::Tensor values = arena_.parameters().narrow(0, first, size);
    at::Tensor change = arena_.gradients().narrow(0, first, size).mul_(gradient_scale);
    const at::Tensor moment = second_moment_.narrow(0, first, size);
    const at::Tensor square = change.square().add_(tiny);
    const std::int64_t columns = entry.shape.empty() ? size : entry.shape.back(),
                       rows = size / columns;
    if (rows > 1 && columns > 1) {  // its row and column means stand where AdamW has the whole
      const at::Tensor table = square.view({rows, columns}), of_rows = moment.narrow(0, 0, rows),
                       of_columns = moment.narrow(0, rows, columns);
      of_rows.mul_(decay).add_(table.mean(1), 1 - decay);
      of_columns.mul_(decay).add_(table.mean(0), 1 - decay);
      change.mul_(at::outer((of_rows / of_rows.mean()).rsqrt_(), of_columns.rsqrt()).view({size}));
    } else {
      moment.mul_(decay).add_(square, 1 - decay);
      change.mul_(moment.rsqrt());
    }
    const double rate = group.learning_rate * learning_rate_multiplier *
                        std::max(least_size, root_mean_square(values));
    const double damped = rate / std::max(1., root_mean_square(change) / most_change);
    if (group.weight_decay > 0) values.mul_(1 - group.weight_decay * rate);
    values.sub_(change, damped);
  }
}

}  // namespace gpuhpc
