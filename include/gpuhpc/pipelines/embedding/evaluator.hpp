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
  // Of all texts in one set, those of a row are duplicates; or those of a row that has 1, not 0.
  paraphrases,
  labelled_paraphrases
};
constexpr bool of_one_set(Measure measure) {
  return measure == Measure::paraphrases || measure == Measure::labelled_paraphrases;
}
// Of `columns` texts and what is known of each row beside them; `evaluator`: the user's word, auto
// or paraphrases.
Measure measure_of(std::size_t columns, Learns learns, std::span<const float> values,
                   const std::string& evaluator);
std::vector<std::string> figure_names(Measure measure);  // what RowEvaluator gives, in its order

class RowEvaluator {
 public:
  // These rows of the columns; `values` of each of them.
  RowEvaluator(const std::vector<TokenDataset>& columns, const std::vector<std::int64_t>& rows,
               std::vector<float> values, Measure measure, bool transitive = false);
  // Of the columns that are compared: texts to compute vectors of.
  const std::vector<DistinctTexts>& texts() const { return texts_; }
  // Paraphrases: the texts of the set, those of both columns.
  std::int64_t texts_in_all() const { return texts_in_all_; }
  // Vectors (texts, W) of each column's distinct texts. Collective: each rank searches its share.
  Figures figures(const std::vector<Matrix>& vectors, Communicator& comm) const;

 private:
  void find_duplicates(const std::vector<TokenDataset>& columns,
                       const std::vector<std::int64_t>& rows, bool transitive);
  Figures paraphrases(const std::vector<Matrix>& vectors, Communicator& comm) const;
  Measure measure_;
  std::vector<DistinctTexts> texts_;
  std::vector<float> values_;
  std::vector<std::int32_t> second_;  // paraphrases: number in the set of each text of column 1
  std::int64_t texts_in_all_ = 0;
  PairSet duplicates_;
  std::vector<std::vector<std::int32_t>> relevant_;  // search: texts 1 in a row with each text 0
};

}  // namespace gpuhpc
