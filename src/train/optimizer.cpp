#include "gpuhpc/train/optimizer.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "adafactor.hpp"

namespace gpuhpc {
namespace {

std::int64_t total_size(const std::vector<Range>& ranges) {
  std::int64_t size = 0;
  for (const Range& range : ranges) size += range.size();
  return size;
}

double square_sum(const float* values, std::int64_t count) {
  // Eight running sums: fixed order, and wide enough for the vector unit.
  std::array<double, 8> sums{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int lane = 0; lane < 8; ++lane)
      sums[lane] += static_cast<double>(values[i + lane]) * values[i + lane];
  for (; i < count; ++i) sums[0] += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace

Optimizer::Optimizer(ParameterArena& arena, const OptimizerOptions& options,
                     std::vector<Range> ranges)
    : arena_(arena),
      options_(options),
      ranges_(std::move(ranges)),
      first_moment_(at::zeros({total_size(ranges_)}, arena.parameters().options())),
      second_moment_(at::zeros({total_size(ranges_)}, arena.parameters().options())) {}

std::vector<Optimizer::Piece> Optimizer::pieces() const {
  std::vector<Piece> result;
  std::int64_t offset = 0;
  for (const Range& range : ranges_) {
    for (const ParameterArena::Group& group : arena_.groups()) {
      const std::int64_t first = std::max(group.range.first, range.first),
                         size = std::min(group.range.last, range.last) - first;
      if (size > 0) result.push_back({&group, first, size, offset + first - range.first});
    }
    offset += range.size();
  }
  return result;
}

void AdamW::step(double learning_rate_multiplier, double gradient_scale) {
  const c10::NoGradGuard no_grad;
  ++steps_;
  const auto options = arena_.parameters().options();
  const at::Tensor count = at::full({}, static_cast<double>(steps_), options);
  const at::Tensor scale = at::full({}, 1 / gradient_scale, options);  // the kernel divides by it
  for (const Piece& piece : pieces()) {
    const at::Tensor values = arena_.parameters().narrow(0, piece.first, piece.size);
    const at::Tensor gradients = arena_.gradients().narrow(0, piece.first, piece.size);
    const at::Tensor mean = first_moment_.narrow(0, piece.offset, piece.size);
    const at::Tensor square = second_moment_.narrow(0, piece.offset, piece.size);
    at::_fused_adamw_(values, gradients, mean, square, {}, count,
                      piece.group->learning_rate * learning_rate_multiplier, options_.beta1,
                      options_.beta2, piece.group->weight_decay, options_.epsilon,
                      /*amsgrad=*/false,
                      /*maximize=*/false, scale);
  }
}

Lamb::Lamb(ParameterArena& arena, const OptimizerOptions& options, std::vector<Range> ranges,
           Sum sum_over_ranks)
    : Optimizer(arena, options, std::move(ranges)), sum_over_ranks_(std::move(sum_over_ranks)) {
  const auto& entries = arena_.entries();
  for (const Range& range : ranges_)
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::int64_t first = std::max(entries[i].range.first, range.first);
      const std::int64_t size = std::min(entries[i].range.last, range.last) - first;
      if (size > 0) parts_.push_back({i, first, size});
    }
}

void Lamb::step(double learning_rate_multiplier, double gradient_scale) {
  const c10::NoGradGuard no_grad;
  ++steps_;
  const double mean_correction = 1 - std::pow(options_.beta1, static_cast<double>(steps_));
  const double square_correction = 1 - std::pow(options_.beta2, static_cast<double>(steps_));
  // 1 moments, and the direction in place of the gradients
  for (const Piece& piece : pieces()) {
    at::Tensor direction = arena_.gradients().narrow(0, piece.first, piece.size);
    at::Tensor mean = first_moment_.narrow(0, piece.offset, piece.size);
    at::Tensor square = second_moment_.narrow(0, piece.offset, piece.size);
    direction.mul_(gradient_scale);
    mean.mul_(options_.beta1).add_(direction, 1 - options_.beta1);
    square.mul_(options_.beta2).addcmul_(direction, direction, 1 - options_.beta2);
    direction.copy_(mean).div_(
        square.div(square_correction).sqrt_().add_(options_.epsilon).mul_(mean_correction));
    direction.add_(arena_.parameters().narrow(0, piece.first, piece.size),
                   piece.group->weight_decay);
  }
  // 2 norms of weights and direction in each tensor, over all ranks
  const auto& entries = arena_.entries();
  std::vector<at::Tensor> slices;
  for (const Part& part : parts_) {
    slices.push_back(arena_.parameters().narrow(0, part.first, part.size));
    slices.push_back(arena_.gradients().narrow(0, part.first, part.size));
  }
  const std::vector<double> sums = square_sums(slices);
  std::vector<double> norms(2 * entries.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    norms[2 * parts_[i].entry] += sums[2 * i];
    norms[2 * parts_[i].entry + 1] += sums[2 * i + 1];
  }
  if (sum_over_ranks_) sum_over_ranks_(norms);
  // 3 the update
  for (const Part& part : parts_) {
    const auto& group = *std::ranges::find_if(
        arena_.groups(), [&](const auto& g) { return part.first < g.range.last; });
    const double weights = norms[2 * part.entry], direction = norms[2 * part.entry + 1];
    const bool adapted = entries[part.entry].shape.size() >= 2 && weights > 0 && direction > 0;
    const double rate = group.learning_rate * learning_rate_multiplier *
                        (adapted ? std::sqrt(weights / direction) : 1);
    arena_.parameters()
        .narrow(0, part.first, part.size)
        .sub_(arena_.gradients().narrow(0, part.first, part.size), rate);
  }
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& kind, ParameterArena& arena,
                                          const OptimizerOptions& options,
                                          std::vector<Range> ranges, Lamb::Sum sum_over_ranks) {
  if (kind == "lamb")
    return std::make_unique<Lamb>(arena, options, std::move(ranges), std::move(sum_over_ranks));
  if (kind == "adafactor") return std::make_unique<Adafactor>(arena, options, std::move(ranges));
  return std::make_unique<AdamW>(arena, options, std::move(ranges));
}

namespace {

constexpr std::int64_t block_size = 1 << 15;

// On a GPU. A norm of all in double would make a copy of all in double.
at::Tensor device_square_sum(const at::Tensor& values) {
  const std::int64_t whole = values.numel() / block_size * block_size;
  const auto squares = [](const at::Tensor& rows) {
    return at::linalg_vector_norm(rows, 2, at::IntArrayRef{1}).to(at::kDouble).square().sum();
  };
  return squares(values.narrow(0, 0, whole).view({-1, block_size}))
      .add(squares(values.narrow(0, whole, values.numel() - whole).unsqueeze(0)));
}

double host_square_sum(const at::Tensor& values) {
  const std::int64_t blocks = block_count(values.numel(), block_size);
  const float* data = values.const_data_ptr<float>();
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  at::parallel_for(0, blocks, 4, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      const Range items = block_items(block, values.numel(), block_size);
      sums[static_cast<std::size_t>(block)] = square_sum(data + items.first, items.size());
    }
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace

std::vector<double> square_sums(const std::vector<at::Tensor>& slices) {
  std::vector<double> sums;
  if (slices.empty() || slices.front().is_cpu()) {
    for (const at::Tensor& slice : slices) sums.push_back(host_square_sum(slice));
    return sums;
  }
  std::vector<at::Tensor> on_device;
  for (const at::Tensor& slice : slices) on_device.push_back(device_square_sum(slice));
  const at::Tensor read = at::stack(on_device).to(at::kCPU);
  sums.assign(read.const_data_ptr<double>(), read.const_data_ptr<double>() + read.numel());
  return sums;
}

double square_sum(const at::Tensor& values) { return square_sums({values}).front(); }

double gradient_norm(ParameterArena& arena, Range slice) {
  return std::sqrt(square_sum(arena.gradients().narrow(0, slice.first, slice.size())));
}

double clip_factor(double norm, double limit) {
  return limit > 0 && norm > limit ? limit / norm : 1;
}

}  // namespace gpuhpc
