#pragma once
// A whole encoder layer on processors, forward and backward, on the training kernels: one autograd
// node, few passes over memory, dropout inside the kernels, all sums in fp32. plain_layer.cpp is
// its twin and serves where it does not fit (CUDA, odd sizes). Private to room nn.
#include <gpuhpc/kernels/packed_matrix.hpp>
#include <gpuhpc/nn/encoder.hpp>
#include <gpuhpc/nn/packed.hpp>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace gpuhpc {

// Places of a layer's sixteen parameters, in Hugging Face's order.
enum LayerParameter : std::size_t {
  query_weight,
  query_bias,
  key_weight,
  key_bias,
  value_weight,
  value_bias,
  attention_weight,
  attention_bias,
  attention_norm_weight,
  attention_norm_bias,
  intermediate_weight,
  intermediate_bias,
  output_weight,
  output_bias,
  output_norm_weight,
  output_norm_bias,
  layer_parameters,
  // MPNet: the bias by distance (A, 2 reach - 1).
  relative_bias = layer_parameters,
  // DeBERTa: the table of relative positions (rows, H), then, unless the content's projections
  // serve, those of its keys and queries.
  position_vectors = layer_parameters,
  position_key_weight,
  position_key_bias,
  position_query_weight,
  position_query_bias
};

// The reach of a bias by distance that serves documents of up to `longest` tokens: kernels read it
// for whole blocks of 32.
inline std::int64_t bias_reach(std::int64_t longest) { return kernels::round_up(longest, 32); }

// Buffers and kernels that the layers of one encoder share. One call at a time.
class CpuLayerContext {
 public:
  virtual ~CpuLayerContext() = default;
};
// Null when this processor or these shapes have no such layer in that type.
std::shared_ptr<CpuLayerContext> make_cpu_layer_context(const EncoderConfig& config,
                                                        at::ScalarType compute);

struct LayerRows {
  at::Tensor hidden;  // (T,H) fp32
  // (padded T, H) the same in the compute type, without gradient; undefined: made when needed
  at::Tensor rounded;
};
// `parameters`: the layer's sixteen, MPNet's bias times sqrt(head size). With checkpoint_layers
// only the input is kept, and the backward pass computes the layer again. `firsts`, when defined:
// (B) int64, the only rows computed behind attention; the result has B rows.
LayerRows cpu_layer(const LayerRows& input, const std::vector<at::Tensor>& parameters,
                    const PackedTokens& batch, const std::shared_ptr<CpuLayerContext>& context,
                    const ForwardOptions& options, const at::Tensor& firsts);

}  // namespace gpuhpc
