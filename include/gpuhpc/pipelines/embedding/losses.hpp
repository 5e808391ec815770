#pragma once
// The losses of train-embedding, one row each: what they need of a row of texts, and over what they
// are defined.
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>

#include "gpuhpc/nn/embedding_losses.hpp"
#include "gpuhpc/pipelines/embedding/options.hpp"

namespace gpuhpc {

struct EmbeddingLoss {
  // Over each row; over all rows of the batch, a sum of one term per row; or one value per batch.
  enum class Over { row, batch, batch_value };
  const char* name;
  std::size_t least, most;  // columns of texts
  bool scored;              // learns a number of each row
  Over over;
  // scores (B) where it is scored.
  at::Tensor (*value)(const Columns&, const at::Tensor& scores, const PairLossOptions&);
};
std::span<const EmbeddingLoss> embedding_losses();
const EmbeddingLoss& embedding_loss(const std::string& name);  // usage_error: there is none

}  // namespace gpuhpc
