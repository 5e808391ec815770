#include "disentangled_attention.hpp"

#include <gpuhpc/nn/ops.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <cmath>

#include "cpu_layer.hpp"

namespace gpuhpc {
namespace {

// (L,L) int64: for query i and key j the row of the position table, counted from the lowest one
// used.
at::Tensor rows_between(const RelativeAttention& relative, std::int64_t tokens, at::Device device) {
  const at::Tensor rows = at::empty({tokens, tokens}, at::TensorOptions().dtype(at::kLong));
  const std::int64_t lowest = relative.row(1 - tokens);
  std::vector<std::int64_t> of_distance;
  for (std::int64_t d = 1 - tokens; d < tokens; ++d)
    of_distance.push_back(relative.row(d) - lowest);
  auto* place = rows.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < tokens; ++i)
    for (std::int64_t j = 0; j < tokens; ++j)
      *place++ = of_distance[static_cast<std::size_t>(i - j + tokens - 1)];
  return rows.to(device);
}

// (rows, H) -> (A, rows, D)
at::Tensor by_head(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), heads, x.size(1) / heads}).transpose(0, 1);
}

}  // namespace

std::pair<at::Tensor, at::Tensor> position_keys_and_queries(const std::vector<at::Tensor>& p,
                                                            const at::Tensor& positions,
                                                            at::ScalarType compute) {
  const bool shared = p.size() <= position_key_weight;
  const auto project = [&](LayerParameter weight) {
    return mixed_linear(positions, p[weight], p[weight + 1], compute);
  };
  return {project(shared ? key_weight : position_key_weight),
          project(shared ? query_weight : position_query_weight)};
}

at::Tensor disentangled_attention(const EncoderConfig& config,
                                  const std::vector<at::Tensor>& parameters, const at::Tensor& qkv,
                                  const PackedTokens& batch, const ForwardOptions& options) {
  const at::Tensor positions =
      seeded_dropout(parameters[position_vectors], options.hidden_dropout, options.generator);
  const auto [keys, queries] = position_keys_and_queries(parameters, positions, options.compute);
  const at::Tensor position_keys = by_head(keys, config.heads),
                   position_queries = by_head(queries, config.heads);  // (A,R,D)
  const double scale = 1 / std::sqrt(3.0 * static_cast<double>(config.head_size()));
  std::vector<std::int64_t> lengths;
  for (std::size_t b = 0; b + 1 < batch.offsets.size(); ++b)
    lengths.push_back(batch.offsets[b + 1] - batch.offsets[b]);
  std::vector<at::Tensor> parts;
  for (const at::Tensor& document : qkv.split_with_sizes(lengths)) {
    const std::int64_t tokens = document.size(0), lowest = config.relative->row(1 - tokens),
                       used = config.relative->row(tokens - 1) + 1 - lowest;
    const auto split = document.view({tokens, 3, config.heads, config.head_size()})
                           .permute({1, 2, 0, 3})
                           .unbind(0);  // 3 x (A,L,D)
    const at::Tensor rows = rows_between(*config.relative, tokens, qkv.device());
    const std::vector<std::int64_t> square{config.heads, tokens, tokens};
    const auto with_positions = [&](const at::Tensor& content,
                                    const at::Tensor& vectors) {  // (A,L,R)
      return at::matmul(content, vectors.narrow(1, lowest, used).transpose(1, 2));
    };
    const at::Tensor to_position =
        at::gather(with_positions(split[0], position_keys), 2, rows.expand(square));
    const at::Tensor from_position =
        at::gather(with_positions(split[1], position_queries), 2, rows.t().expand(square))
            .transpose(1, 2);
    const at::Tensor scores =
        (at::matmul(split[0], split[1].transpose(1, 2)) + to_position + from_position)
            .to(at::kFloat) *
        scale;
    const at::Tensor shares =
        seeded_dropout(at::softmax(scores, -1), options.attention_dropout, options.generator);
    parts.push_back(at::matmul(shares.to(qkv.scalar_type()), split[2])
                        .transpose(0, 1)
                        .reshape({tokens, config.hidden_size}));
  }
  return at::cat(parts);
}

}  // namespace gpuhpc
