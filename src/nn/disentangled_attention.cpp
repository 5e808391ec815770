#include "plain_layer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>

#include "cpu_layer.hpp"

namespace gpuhpc {
namespace {

// The row of the position table at distance (query - key) of longest-1, .., 1-longest: int64.
at::Tensor rows_at_distances(const RelativeAttention& relative, std::int64_t longest,
                             at::Device device) {
  std::vector<std::int64_t> rows;
  for (std::int64_t distance = longest - 1; distance > -longest; --distance)
    rows.push_back(relative.row(distance));
  return to_device(at::tensor(rows), device);
}

// (L,L) of these: for query i and key j the row at distance i - j.
at::Tensor between(const at::Tensor& rows, std::int64_t tokens) {
  const std::int64_t longest = (rows.size(0) + 1) / 2;
  return rows.narrow(0, longest - tokens, 2 * tokens - 1).unfold(0, tokens, 1).flip({0});
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

std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>
disentangled_scores(const EncoderConfig& config, const std::vector<at::Tensor>& parameters,
                    const ForwardOptions& options, std::int64_t longest, double divisor) {
  const at::Tensor positions =
      seeded_dropout(parameters[position_vectors], options.hidden_dropout, options.generator);
  const auto [keys, queries] = position_keys_and_queries(parameters, positions, options.compute);
  // One small copy for all documents of the layer. The queries of positions are divided before
  // anything is added up, as those of tokens are: fp16 ends at 65,504.
  return [relative = *config.relative, position_keys = by_head(product_operand(keys), config.heads),
          position_queries = by_head(product_operand(queries / divisor), config.heads),
          at_distances = rows_at_distances(*config.relative, longest, keys.device())](
             const at::Tensor& products, const at::Tensor& own_queries,
             const at::Tensor& own_keys) {
    const std::int64_t tokens = products.size(-1), lowest = relative.row(1 - tokens),
                       used = relative.row(tokens - 1) + 1 - lowest;
    const at::Tensor rows = between(at_distances, tokens) - lowest;
    const auto with_positions = [&](const at::Tensor& content,
                                    const at::Tensor& vectors) {  // (..,A,L,R)
      const at::Tensor used_vectors = vectors.narrow(1, lowest, used).transpose(1, 2);
      if (content.dim() == 3) return at::matmul(content, used_vectors);
      // Several sequences are one product for each head: matmul would copy the vectors for each.
      return at::matmul(content.transpose(0, 1).flatten(1, 2), used_vectors)
          .unflatten(1, {content.size(0), tokens})
          .transpose(0, 1);
    };
    const at::Tensor to_position =
        at::gather(with_positions(own_queries, position_keys), -1, rows.expand(products.sizes()));
    const at::Tensor from_position = at::gather(with_positions(own_keys, position_queries), -1,
                                                rows.t().expand(products.sizes()))
                                         .transpose(-2, -1);
    return products + to_position + from_position;
  };
}

}  // namespace gpuhpc
