#pragma once
// How good vectors are on rows of texts, told by what the rows are: anchors search for their
// positives, positives are nearer than negatives, cosines follow scores, or tell pairs apart.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/eval/retrieval.hpp"
#include "gpuhpc/pipelines/embedding/distinct_texts.hpp"
#include "gpuhpc/pipelines/embedding/losses.hpp"

namespace gpuhpc {

// What rows can be measured by.
enum class Measure {
  nothing,   // one text a row, or classes
  search,    // two texts
  triplets,  // three or more: search, and whether the first negative is further off
  scores,    // two texts, a score
  pairs,     // two texts, 1 or 0: they belong together or do not
};
// Of `columns` texts and what is known of each row beside them.
Measure measure_of(std::size_t columns, Learns learns, std::span<const float> values);
std::vector<std::string> figure_names(Measure measure);  // what RowEvaluator gives, in its order

class RowEvaluator {
 public:
  // These rows of the columns; `values` of each of them.
  RowEvaluator(const std::vector<TokenDataset>& columns, const std::vector<std::int64_t>& rows,
               std::vector<float> values, Measure measure);
  // Of the columns that are compared: texts to compute vectors of.
  const std::vector<DistinctTexts>& texts() const { return texts_; }
  // Vectors (texts, W) of each column's distinct texts. Collective: each rank searches its share.
  Figures figures(const std::vector<Matrix>& vectors, Communicator& comm) const;

 private:
  Measure measure_;
  std::vector<DistinctTexts> texts_;
  std::vector<float> values_;
  std::vector<std::vector<std::int32_t>> relevant_;  // search: texts 1 in a row with each text 0
};

}  // namespace gpuhpc
