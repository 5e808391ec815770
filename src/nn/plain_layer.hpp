#pragma once
// An encoder layer out of differentiable operators: any device, any type, dropout. Private to room
// nn.
#include <gpuhpc/nn/encoder.hpp>

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

namespace gpuhpc {

// Rows of a table. Where the table's gradient has its place already, as under a ParameterArena, the
// backward pass adds the rows that occur to it, always in the batch's order, instead of making a
// gradient of all rows first.
at::Tensor table_rows(const at::Tensor& table, const at::Tensor& ids);

// input_error for an id that the table of `rows` does not have. On a GPU nothing is looked at: the
// check would wait for the device.
void check_token_ids(const at::Tensor& ids, std::int64_t rows);

at::Tensor activate(const at::Tensor& x, Activation activation);

// `parameters`: the layer's (LayerParameter: sixteen, DeBERTa more), hidden (T,H) fp32 -> (T,H)
// fp32. `firsts`, when defined: (B) int64, the only rows computed behind attention: -> (B,H).
at::Tensor plain_layer(const EncoderConfig& config, const std::vector<at::Tensor>& parameters,
                       const at::Tensor& hidden, const PackedTokens& batch,
                       const ForwardOptions& options, const at::Tensor& firsts);

// A layer as a function of its parameters and its input.
using LayerBody =
    std::function<at::Tensor(const std::vector<at::Tensor>& parameters, const at::Tensor& hidden)>;
// The same values and gradients, bit for bit; only `hidden`, `parameters` and the state of the
// generators are kept until the backward pass, which computes the layer again (Chen et al. 2016,
// section 4). What learns and is no parameter of the layer has to stand among them all the same;
// the gradient of what several layers share is the same up to the order of its sum.
at::Tensor checkpointed(const LayerBody& body, const std::vector<at::Tensor>& parameters,
                        const at::Tensor& hidden, const ForwardOptions& options);

// DeBERTa's attention (He et al. 2021, eq. 2 to 4): scores of content with content, content with
// position and position with content.

// Keys and queries (rows, H) of the relative positions: `parameters` of a layer as plain_layer
// takes them, `positions` (rows, H).
std::pair<at::Tensor, at::Tensor> position_keys_and_queries(
    const std::vector<at::Tensor>& parameters, const at::Tensor& positions, at::ScalarType compute);

// The scores of AttentionOptions, in (A,L,L) for documents of at most `longest` tokens: content
// with content, and both with positions. Queries come divided by `divisor`.
std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>
disentangled_scores(const EncoderConfig& config, const std::vector<at::Tensor>& parameters,
                    const ForwardOptions& options, std::int64_t longest, double divisor);

}  // namespace gpuhpc
