#pragma once
// The losses of train-embedding, one row each: what they need of a row of texts, and over what they
// are defined.
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>

#include "gpuhpc/io/json.hpp"
#include "gpuhpc/nn/embedding_losses.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "gpuhpc/pipelines/embedding/options.hpp"

namespace gpuhpc {

// What a loss learns of a row beside its texts.
enum class Learns {
  nothing,
  similarity,  // a score of how near two texts are
  teacher,     // scores of another model, one a row
  teachers,    // one for each text after the first
  classes      // one of several
};

NLOHMANN_JSON_SERIALIZE_ENUM(Learns, {{Learns::nothing, "nothing"},
                                      {Learns::similarity, "similarity"},
                                      {Learns::teacher, "teacher"},
                                      {Learns::teachers, "teachers"},
                                      {Learns::classes, "classes"}})

// What a loss is computed of.
struct LossRows {
  Columns columns;
  at::Tensor values;  // of the rows (B), or (B, values of a row) where there are several
  const PairLossOptions& options;
  const PairClassifier* head;  // where it learns classes
};

struct EmbeddingLoss {
  // Over each row; over all rows of the batch, a sum of one term per row; or one value per batch.
  enum class Over { row, batch, batch_value };
  const char* name;
  std::size_t least, most;  // columns of texts
  Learns learns;
  ScoreRange scores;  // that it can learn
  Over over;
  at::Tensor (*value)(const LossRows&);
  const char* options;  // of [embedding] or [dataset.NAME] that it reads, and not all losses do
  // Whether it reads such an option; of others: false.
  bool reads(const std::string& key) const;
  // Numbers that it learns of a row with so many texts.
  std::size_t values(std::size_t columns) const {
    return learns == Learns::nothing ? 0 : learns == Learns::teachers ? columns - 1 : 1;
  }
};
std::span<const EmbeddingLoss> embedding_losses();
const EmbeddingLoss& embedding_loss(const std::string& name);  // usage_error: there is none

}  // namespace gpuhpc
