#pragma once
// Differentiable building blocks of the encoder. Legend: T tokens, H hidden size, A heads, D = H/A,
// B documents.
#include <gpuhpc/nn/packed.hpp>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace gpuhpc {

// x (T,in) W^T + b with W (out,in): the product in `compute`, gradients of W and b in fp32. Returns
// (T,out) in `compute`.
at::Tensor mixed_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        at::ScalarType compute);

// Several linears of one input as one product, outputs side by side: (T, sum of outs) in `compute`.
at::Tensor joined_linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                         const std::vector<at::Tensor>& biases, at::ScalarType compute);

// Softmax attention inside each document (Vaswani et al. 2017, eq. 1). qkv (T,3H): queries, keys,
// values side by side, each A heads of D. Returns (T,H) in the type of qkv. `dropout` acts on the
// probabilities; on CUDA its random numbers come from LibTorch's own generator.
at::Tensor packed_attention(const at::Tensor& qkv, const PackedTokens& batch, std::int64_t heads,
                            double dropout, const std::optional<at::Generator>& generator);

// Zeroes elements with probability `rate`, scales the rest by 1/(1-rate); rate 0 is the identity.
at::Tensor seeded_dropout(const at::Tensor& x, double rate,
                          const std::optional<at::Generator>& generator);

}  // namespace gpuhpc
