#pragma once
// How sure the predictions are, and how often they are right at that.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/eval/documents.hpp"

namespace gpuhpc {

// Scores in equal bins of [0, 1]; a score outside falls into the first or last bin.
struct ScoreHistogram {
  static constexpr std::size_t bins = 20;
  std::array<std::int64_t, bins> correct{}, wrong{};  // without gold all are counted in `correct`
  void add(float score, bool right);
};

struct ScoreHistograms {
  bool with_gold = false;
  ScoreHistogram best;       // one a document: the score of its best class
  ScoreHistogram predicted;  // one a predicted (document, class) pair
};

// N documents: `scores` in the order of sort_scores, `predicted` and `gold` ascending; `gold` may
// be empty as a whole.
ScoreHistograms score_histograms(std::span<const std::vector<ClassScore>> scores,
                                 std::span<const std::vector<std::int32_t>> predicted,
                                 std::span<const std::vector<std::int32_t>> gold);

}  // namespace gpuhpc
