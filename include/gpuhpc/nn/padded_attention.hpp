#pragma once
// Attention on a GPU with what its own kernels do not know: other scores, learned biases, heads of
// odd sizes. Sequences of like length are padded and computed together, so that the launches do not
// grow with their number.
#include "gpuhpc/nn/ops.hpp"

namespace gpuhpc {

// Sequences that are computed together, each padded to the longest of them.
struct PaddedGroup {
  std::vector<std::int64_t> sequences;
  std::int64_t queries = 0, keys = 0;  // of the longest
};
constexpr std::int64_t most_padded_scores = 1 << 22;  // of a group of several, per head
// Longest keys first. Padding makes a group's scores at most half as many again as its sequences
// have.
std::vector<PaddedGroup> groups_of_like_length(const std::vector<std::int32_t>& q_offsets,
                                               const std::vector<std::int32_t>& k_offsets);

// As attention(), without a window. options.scores gets a group's products at once.
at::Tensor padded_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const PackedOffsets& q_offsets, const PackedOffsets& k_offsets,
                            const AttentionOptions& options);

}  // namespace gpuhpc
