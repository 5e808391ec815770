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
  // 1 the directions, in place of the gradients
  std::vector<at::Tensor> slices;  // weights, direction, weights, ..
  for (const ParameterArena::Entry& entry : arena_.entries()) {
    const std::int64_t first = entry.range.first, size = entry.range.size();
    slices.push_back(arena_.parameters().narrow(0, first, size));
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
    slices.push_back(change);
  }
  // 2 sizes of both, of all tensors: one read, for which the host waits for a GPU
  const std::vector<double> sums = square_sums(slices);
  const auto root_mean_square = [&](std::size_t slice) {
    return std::sqrt(sums[slice] / static_cast<double>(slices[slice].numel()));
  };
  // 3 the update
  for (std::size_t e = 0; e < arena_.entries().size(); ++e) {
    const std::int64_t first = arena_.entries()[e].range.first;
    const auto& group =
        *std::ranges::find_if(arena_.groups(), [&](const auto& g) { return first < g.range.last; });
    const double rate = group.learning_rate * learning_rate_multiplier *
                        std::max(least_size, root_mean_square(2 * e));
    const double damped = rate / std::max(1., root_mean_square(2 * e + 1) / most_change);
    if (group.weight_decay > 0) slices[2 * e].mul_(1 - group.weight_decay * rate);
    slices[2 * e].sub_(slices[2 * e + 1], damped);
  }
}

}  // namespace gpuhpc
