#pragma once
// Blocks of rows as tensors with memory of their own: always aligned alike, so products have the
// same bits wherever the rows came from (heap, file map). Private to the room.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"

namespace gpuhpc {

inline at::Tensor copy_rows(MatrixView matrix, Range rows) {
  at::Tensor block = at::empty({rows.size(), matrix.columns}, at::kFloat);
  if (rows.size() == 0) return block;  // an empty matrix has no memory to copy from
  std::memcpy(block.data_ptr<float>(), matrix.data + rows.first * matrix.columns,
              static_cast<std::size_t>(rows.size() * matrix.columns) * sizeof(float));
  return block;
}

inline at::Tensor gather_rows(MatrixView matrix, std::span<const std::int32_t> rows) {
  at::Tensor block = at::empty({std::ssize(rows), matrix.columns}, at::kFloat);
  float* out = block.data_ptr<float>();
  for (const std::int32_t row : rows) {
    std::memcpy(out, matrix.data + row * matrix.columns,
                static_cast<std::size_t>(matrix.columns) * sizeof(float));
    out += matrix.columns;
  }
  return block;
}

// `rows` must start at a multiple of `block` and end at one or at the end: else blocks would depend
// on the caller.
inline void check_blocks(Range rows, std::int64_t total, std::int64_t block) {
  const bool empty = rows.first == rows.last;
  const bool aligned = rows.first % block == 0 && (rows.last % block == 0 || rows.last == total);
  if (rows.first < 0 || rows.last > total || rows.first > rows.last || (!empty && !aligned)) {
    throw internal_error("query rows [{}, {}) of {} are not whole blocks of {}", rows.first,
                         rows.last, total, block);
  }
}

inline Neighbours no_neighbours(std::int64_t rows, std::int64_t k) {
  const auto size = static_cast<std::size_t>(rows * k);
  return {k, std::vector<std::int32_t>(size, -1), std::vector<float>(size, 0.0F)};
}

// The k best (weight, index) pairs seen so far; ties: lower index first. Private to the room.

// Works on rows of a Neighbours: `indices` starts as -1; only weights above `bound` enter.
class TopK {
 public:
  TopK(std::span<std::int32_t> indices, std::span<float> weights, float bound = 0)
      : indices_(indices), weights_(weights), bound_(bound) {}

  float worst() const { return weights_.empty() || indices_.back() < 0 ? bound_ : weights_.back(); }

  void offer(std::int32_t index, float weight) {
    if (weights_.empty() || !(weight > bound_)) return;
    std::size_t at = weights_.size();
    while (at > 0 && before(index, weight, at - 1)) --at;
    if (at == weights_.size()) return;
    for (std::size_t i = weights_.size() - 1; i > at; --i) {
      indices_[i] = indices_[i - 1];
      weights_[i] = weights_[i - 1];
    }
    indices_[at] = index;
    weights_[at] = weight;
  }

  // Offers weights[j] for index name(j); groups of weights that cannot enter are passed over
  // quickly.
  template <typename Name>
  void offer_all(std::span<const float> weights, const Name& name) {
    constexpr std::size_t group = 32;
    for (std::size_t first = 0; first < weights.size(); first += group) {
      const std::size_t last = first + group < weights.size() ? first + group : weights.size();
      const float least = worst();
      bool any = false;
      for (std::size_t j = first; j < last; ++j) any |= weights[j] >= least;
      if (!any) continue;
      for (std::size_t j = first; j < last; ++j) {
        if (weights[j] >= worst()) offer(name(j), weights[j]);
      }
    }
  }

 private:
  bool before(std::int32_t index, float weight, std::size_t at) const {
    return indices_[at] < 0 || weight > weights_[at] ||
           (weight == weights_[at] && index < indices_[at]);
  }
  std::span<std::int32_t> indices_;
  std::span<float> weights_;
  float bound_;
};

}  // namespace gpuhpc
