#pragma once
// DeBERTa's attention (He et al. 2021, eq. 2 to 4): scores of content with content, content with
// position and position with content. Private to room nn.
#include <gpuhpc/nn/encoder.hpp>

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace gpuhpc {

// Keys and queries (rows, H) of the relative positions: `parameters` of a layer as plain_layer
// takes them, `positions` (rows, H).
std::pair<at::Tensor, at::Tensor> position_keys_and_queries(
    const std::vector<at::Tensor>& parameters, const at::Tensor& positions, at::ScalarType compute);

// qkv (T,3H) -> (T,H) in the type of qkv, out of differentiable operators, document by document.
at::Tensor disentangled_attention(const EncoderConfig& config,
                                  const std::vector<at::Tensor>& parameters, const at::Tensor& qkv,
                                  const PackedTokens& batch, const ForwardOptions& options);

}  // namespace gpuhpc
