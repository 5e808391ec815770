#include "dropout.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/kernels/dropout.hpp"
#include "gpuhpc/nn/ops.hpp"

namespace gpuhpc {
namespace {

template <typename T>
void drop(const kernels::Dropout& dropout, const T* input, T* output, std::int64_t count) {
  constexpr std::int64_t blocks_at_once = 64, block = 32;
  at::parallel_for(0, (count + block - 1) / block, 1024, [&](std::int64_t from, std::int64_t to) {
    std::array<std::uint32_t, blocks_at_once> bits;
    for (std::int64_t first = from; first < to; first += blocks_at_once) {
      const std::int64_t blocks = std::min(blocks_at_once, to - first);
      kernels::draw_kept(dropout, first, std::span(bits).first(static_cast<std::size_t>(blocks)));
      const std::int64_t last = std::min(count, (first + blocks) * block);
      for (std::int64_t i = first * block; i < last; ++i) {
        const bool kept = bits[static_cast<std::size_t>(i / block - first)] >> i % block & 1;
        output[i] = kept ? static_cast<T>(static_cast<float>(input[i]) * dropout.scale) : T(0);
      }
    }
  });
}

at::Tensor dropped(const kernels::Dropout& dropout, const at::Tensor& values) {
  const at::Tensor input = values.contiguous();
  at::Tensor output = at::empty_like(input);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, input.scalar_type(), "dropout", [&] {
    drop(dropout, input.const_data_ptr<scalar_t>(), output.mutable_data_ptr<scalar_t>(),
         input.numel());
  });
  return output;
}

// Elements are decided by their places, again for the gradient: no mask is kept.
struct PlacedDropout : torch::autograd::Function<PlacedDropout> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const kernels::Dropout& dropout) {
    context->saved_data["key"] = static_cast<std::int64_t>(dropout.key);
    context->saved_data["threshold"] = static_cast<std::int64_t>(dropout.threshold);
    context->saved_data["scale"] = static_cast<double>(dropout.scale);
    return dropped(dropout, x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto whole = [&](const char* name) { return context->saved_data[name].toInt(); };
    const kernels::Dropout dropout{static_cast<std::uint64_t>(whole("key")), 0,
                                   static_cast<std::uint32_t>(whole("threshold")),
                                   static_cast<float>(context->saved_data["scale"].toDouble())};
    return {dropped(dropout, gradients[0]), at::Tensor()};
  }
};

void check_seeded(const std::optional<at::Generator>& generator) {
  if (!generator) throw internal_error("dropout needs a seeded generator");
}

}  // namespace

kernels::Dropout drawn_dropout(double rate, const std::optional<at::Generator>& generator) {
  if (rate <= 0) return {};
  check_seeded(generator);
  auto* source = at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::lock_guard<std::mutex> lock(source->mutex_);
  return kernels::make_dropout(rate, source->random64());
}

at::Tensor seeded_dropout(const at::Tensor& x, double rate,
                          const std::optional<at::Generator>& generator) {
  if (rate <= 0) return x;
  if (x.is_cpu()) return PlacedDropout::apply(x, drawn_dropout(rate, generator));
  check_seeded(generator);
  // 1 / (1 - rate) in x's type would be off by up to 2^-9 of itself. The division by a number
  // computes in fp32, and rounds once.
  const at::Tensor kept = at::empty_like(x, x.options().dtype(at::kBool).requires_grad(false))
                              .bernoulli_(1 - rate, generator);
  return (x * kept).div_(1 - rate);
}

}  // namespace gpuhpc
