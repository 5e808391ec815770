#include "modern_layer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/sin.h>

#include <cmath>

#include "plain_layer.hpp"

namespace gpuhpc {
namespace {

// Queries or keys (T,A,D), turned by their places.
at::Tensor turned(const at::Tensor& rows, const Rotation& turn) {
  const auto halves = rows.to(at::kFloat).chunk(2, -1);
  return at::cat({halves[0] * turn.cosines - halves[1] * turn.sines,
                  halves[1] * turn.cosines + halves[0] * turn.sines},
                 -1)
      .to(rows.scalar_type());
}

}  // namespace

Rotation rotation(const at::Tensor& positions, double theta, std::int64_t head_size) {
  const auto floats = at::TensorOptions().dtype(at::kFloat).device(positions.device());
  const at::Tensor exponents = at::arange(0, head_size, 2, floats) / static_cast<double>(head_size);
  const at::Tensor angles =
      (positions.to(at::kFloat).unsqueeze(1) * at::reciprocal(at::pow(theta, exponents)))
          .unsqueeze(1);
  return {at::cos(angles), at::sin(angles)};
}

at::Tensor modern_norm(const EncoderConfig& config, const at::Tensor& rows,
                       const at::Tensor& weight) {
  return at::layer_norm(rows, {config.hidden_size}, weight, {}, config.layer_norm_epsilon);
}

at::Tensor modern_layer(const EncoderConfig& config, bool local, const Rotation& turn,
                        const std::vector<at::Tensor>& p, const at::Tensor& hidden,
                        const PackedTokens& batch, const ForwardOptions& options,
                        const at::Tensor& firsts) {
  const auto kept = [&](const at::Tensor& rows) {
    return firsts.defined() ? rows.index_select(0, firsts) : rows;
  };
  const auto plus = [&](const at::Tensor& residual, const at::Tensor& change) {
    return residual + seeded_dropout(change, options.hidden_dropout, options.generator);
  };
  const at::Tensor before =
      p.size() > modern_norm_before ? modern_norm(config, hidden, p[modern_norm_before]) : hidden;
  const at::Tensor qkv = mixed_linear(before, p[modern_qkv], {}, options.compute);  // (T,3H)
  const auto split = qkv.view({qkv.size(0), 3, config.heads, config.head_size()}).unbind(1);
  AttentionOptions how{.divisor = std::sqrt(static_cast<double>(config.head_size())),
                       .dropout = options.attention_dropout,
                       .generator = options.generator};
  if (local) how.window = config.modern->window;
  const at::Tensor context =
      attention(turned(split[0], turn), turned(split[1], turn), split[2], batch, batch, how);
  const at::Tensor attended =
      plus(kept(hidden), mixed_linear(kept(context), p[modern_attention], {}, options.compute));
  const auto wide = mixed_linear(modern_norm(config, attended, p[modern_wide_norm]), p[modern_up],
                                 {}, options.compute)
                        .chunk(2, -1);
  return plus(attended, mixed_linear(activate(wide[0], config.activation) * wide[1], p[modern_down],
                                     {}, options.compute));
}

}  // namespace gpuhpc
