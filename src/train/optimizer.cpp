#include "gpuhpc/train/optimizer.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace gpuhpc {
namespace {

double square_sum(const float* values, std::int64_t count) {
  // Eight running sums: fixed order, and wide enough for the vector unit.
  std::array<double, 8> sums{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int lane = 0; lane < 8; ++lane) sums[lane] += static_cast<double>(values[i + lane]) * values[i + lane];
  for (; i < count; ++i) sums[0] += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace

AdamW::AdamW(ParameterArena& arena, const AdamWOptions& options, Range slice)
    : arena_(arena),
      options_(options),
      slice_(slice),
      first_moment_(at::zeros({slice.size()}, arena.parameters().options())),
      second_moment_(at::zeros({slice.size()}, arena.parameters().options())) {}

void AdamW::step(double factor, double gradient_scale) {
  const c10::NoGradGuard no_grad;
  ++steps_;
  const auto options = arena_.parameters().options();
  const at::Tensor count = at::full({}, static_cast<double>(steps_), options);
  const at::Tensor scale = at::full({}, 1 / gradient_scale, options);  // the kernel divides by it
  for (const ParameterArena::Group& group : arena_.groups()) {
    const std::int64_t first = std::max(group.range.first, slice_.first), size = std::min(group.range.last, slice_.last) - first;
    if (size <= 0) continue;
    const at::Tensor values = arena_.parameters().narrow(0, first, size), gradients = arena_.gradients().narrow(0, first, size);
    const at::Tensor mean = first_moment_.narrow(0, first - slice_.first, size);
    const at::Tensor square = second_moment_.narrow(0, first - slice_.first, size);
    at::_fused_adamw_(values, gradients, mean, square, {}, count, group.learning_rate * factor, options_.beta1, options_.beta2,
                      group.weight_decay, options_.epsilon, /*amsgrad=*/false, /*maximize=*/false, scale);
  }
}

double gradient_norm(ParameterArena& arena, Range slice) {
  const at::Tensor gradients = arena.gradients().narrow(0, slice.first, slice.size());
  if (!gradients.is_cpu()) return at::linalg_vector_norm(gradients, 2, std::nullopt, false, at::kDouble).item<double>();
  constexpr std::int64_t block_size = 1 << 15;
  const std::int64_t blocks = block_count(slice.size(), block_size);
  const float* values = gradients.const_data_ptr<float>();
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  at::parallel_for(0, blocks, 4, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      const Range items = block_items(block, slice.size(), block_size);
      sums[static_cast<std::size_t>(block)] = square_sum(values + items.first, items.size());
    }
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return std::sqrt(sum);
}

double clip_factor(double norm, double limit) { return limit > 0 && norm > limit ? limit / norm : 1; }

}  // namespace gpuhpc
