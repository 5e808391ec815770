#pragma once
// T5's decoder one token at a time on a GPU (processors: cpu_t5.hpp): the keys and values of the
// tokens before stay. Legend: R rows that are decoded together, all equally long; A heads, D head
// size, V vocabulary.
#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/nn/t5.hpp"

namespace gpuhpc {

class T5Decoder {
 public:
  // Weights are joined, and cast to `compute`, once. Softmax, norms and residual stream are fp32.
  T5Decoder(const T5& model, at::ScalarType compute);

  // Rows stand document by document, as many for each.
  struct Rows {
    std::int64_t length = 0, per_document = 1;
    std::vector<at::Tensor> keys, values;                // (R,A,capacity,D) each layer
    std::vector<at::Tensor> source_keys, source_values;  // (S,A,D) each layer, packed
    std::vector<Range> sources;                          // of each document, among the S
  };
  // A row each document; at most `capacity` tokens.
  Rows begin(const at::Tensor& encoded, const PackedOffsets& source, std::int64_t capacity) const;
  // What stands behind these tokens (R), one each row: (R,V) fp32.
  at::Tensor step(Rows& rows, std::span<const std::int32_t> tokens) const;
  // Row i becomes what row `from[i]` was; `documents`: which of the present ones stay, ascending,
  // with from.size() / documents.size() rows each.
  void select(Rows& rows, std::span<const std::int64_t> from,
              std::span<const std::int64_t> documents) const;

 private:
  struct Layer {
    at::Tensor qkv, output, norm;                             // self attention
    at::Tensor query, key_value, source_output, source_norm;  // attention to the source
    std::vector<at::Tensor> feed_forward;
    at::Tensor feed_forward_norm;
  };
  at::Tensor product(const at::Tensor& x, const at::Tensor& weight) const;
  at::Tensor attend_to_source(const Rows& rows, std::size_t layer, const at::Tensor& q) const;

  T5Config config_;
  at::ScalarType compute_;
  at::Tensor words_, bias_table_, norm_, head_;
  std::vector<Layer> layers_;
};

}  // namespace gpuhpc
