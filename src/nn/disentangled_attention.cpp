#include "plain_layer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/matmul.h>

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

std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>
disentangled_scores(const EncoderConfig& config, const std::vector<at::Tensor>& parameters,
                    const ForwardOptions& options) {
  const at::Tensor positions =
      seeded_dropout(parameters[position_vectors], options.hidden_dropout, options.generator);
  const auto [keys, queries] = position_keys_and_queries(parameters, positions, options.compute);
  return [relative = *config.relative, position_keys = by_head(keys, config.heads),
          position_queries = by_head(queries, config.heads)](const at::Tensor& products,
                                                             const at::Tensor& own_queries,
                                                             const at::Tensor& own_keys) {
    const std::int64_t tokens = products.size(1), lowest = relative.row(1 - tokens),
                       used = relative.row(tokens - 1) + 1 - lowest;
    const at::Tensor rows = rows_between(relative, tokens, products.device());
    const auto with_positions = [&](const at::Tensor& content,
                                    const at::Tensor& vectors) {  // (A,L,R)
      return at::matmul(content, vectors.narrow(1, lowest, used).transpose(1, 2));
    };
    const at::Tensor to_position =
        at::gather(with_positions(own_queries, position_keys), 2, rows.expand(products.sizes()));
    const at::Tensor from_position =
        at::gather(with_positions(own_keys, position_queries), 2, rows.t().expand(products.sizes()))
            .transpose(1, 2);
    return products + to_position + from_position;
  };
}

}  // namespace gpuhpc
