#pragma once
// DeBERTa's scores between content and relative positions for CpuEncoder. Keys and queries of the
// positions are the same for every document: projected and packed once. Private to room nn.
#include <cstdint>
#include <vector>

#include "gpuhpc/kernels/encoder_kernels.hpp"
#include "gpuhpc/nn/encoder.hpp"

namespace gpuhpc {

// One matrix (rows of the position table, head size) for each head.
template <typename W>
struct RelativeLayer {
  std::vector<kernels::PackedMatrix<W>> keys, queries;
};
template <typename W>
RelativeLayer<W> pack_relative_layer(const Encoder& encoder, std::int64_t index);

struct RelativeBuffers {
  kernels::AlignedBuffer<float> to_position,
      from_position;  // of 32 tokens and the positions they need, 32 floats around
  kernels::AlignedBuffer<float> scores;  // (tokens, tokens), padded to 32
};

class RelativeScores {
 public:
  RelativeScores(const RelativeAttention& relative, std::int64_t longest);
  // The attention of `call`, every score with what the positions add to it. Inside the kernels'
  // scope.
  template <typename T, typename W>
  void attend(const kernels::EncoderKernels<T, W>& kernels, const RelativeLayer<W>& layer,
              kernels::AttentionCall<T> call, RelativeBuffers& buffers) const;

 private:
  // Scores of one head between 32 queries and 32 keys from (query, key) on.
  template <typename T, typename W>
  void score_block(const kernels::EncoderKernels<T, W>& kernels, const RelativeLayer<W>& layer,
                   std::int64_t head, const kernels::AttentionCall<T>& call, std::int64_t query,
                   std::int64_t key, RelativeBuffers& buffers) const;
  std::int32_t row(std::int64_t query, std::int64_t key) const {
    return rows_[static_cast<std::size_t>(longest_ - 1 + key - query)];
  }

  std::int64_t longest_;
  std::vector<std::int32_t>
      rows_;  // of the table, for distances from longest - 1 down to 1 - longest
};

}  // namespace gpuhpc
