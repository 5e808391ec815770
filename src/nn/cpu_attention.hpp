#pragma once
// Attention of a training step on processors with what LibTorch's flash kernel there does not know:
// a bias by distance, dropout. Documents are dealt to the threads; sums over documents are the same
// bits on any number of them. Private to room nn.
#include "gpuhpc/nn/ops.hpp"

namespace gpuhpc {

// Whether cpu_self_attention() serves: this processor's kernels, of (T, 3 A D) in that type.
bool has_cpu_attention(const at::Tensor& qkv);

// As self_attention(), on the kernels. Nothing but `qkv` is kept for the gradient.
at::Tensor cpu_self_attention(const at::Tensor& qkv, std::int64_t heads,
                              const PackedOffsets& offsets, const AttentionOptions& options);

// As attention(), on LibTorch's operators in fp32; queries, keys and values are kept.
at::Tensor cpu_plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const PackedOffsets& q_offsets, const PackedOffsets& k_offsets,
                               const AttentionOptions& options);

// (A,Lq,Lk) of a bias (A, 2 reach - 1): row q, column k is its value at distance k - q.
at::Tensor between(const at::Tensor& bias, std::int64_t queries, std::int64_t keys);

}  // namespace gpuhpc
