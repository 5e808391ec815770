#pragma once
// Packed tokens: the documents of a batch one after the other, nothing between them, so no padding
// is ever computed.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace gpuhpc {

// B documents, T tokens. Each document has its special tokens ([CLS] .. [SEP]) and at least one
// token.
struct PackedTokens {
  at::Tensor token_ids;     // (T) int64, on the encoder's device
  at::Tensor segment_ids;   // (T) int64 or undefined: all segment 0
  at::Tensor position_ids;  // (T) int64, place of the token in its document, from 0
  at::Tensor cumulative;  // (B+1) int32 on the encoder's device: offsets again, for CUDA attention
                          // and pooling
  std::vector<std::int32_t> offsets;  // (B+1) document b is tokens [offsets[b], offsets[b+1])
  std::int32_t max_len = 0;

  std::int64_t documents() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t tokens() const { return offsets.empty() ? 0 : offsets.back(); }
};

// From ids that already hold the special tokens; token_ids has offsets.back() entries. segment_ids
// empty: all 0.
PackedTokens pack_tokens(std::span<const std::int32_t> token_ids,
                         std::span<const std::int32_t> offsets, at::Device device,
                         std::span<const std::int32_t> segment_ids = {});

}  // namespace gpuhpc
