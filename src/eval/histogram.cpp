#include "gpuhpc/eval/histogram.hpp"

#include <algorithm>

namespace gpuhpc {

void ScoreHistogram::add(float score, bool right) {
  const auto bin =
      static_cast<std::size_t>(std::clamp(score, 0.0f, 1.0f) * static_cast<float>(bins));
  ++(right ? correct : wrong)[std::min(bin, bins - 1)];
}

ScoreHistograms score_histograms(std::span<const std::vector<ClassScore>> scores,
                                 std::span<const std::vector<std::int32_t>> predicted,
                                 std::span<const std::vector<std::int32_t>> gold) {
  ScoreHistograms histograms;
  histograms.with_gold = !gold.empty();
  for (std::size_t d = 0; d < scores.size(); ++d) {
    const auto right = [&](std::int32_t c) {
      return gold.empty() || std::binary_search(gold[d].begin(), gold[d].end(), c);
    };
    if (!scores[d].empty())
      histograms.best.add(scores[d].front().score, right(scores[d].front().class_id));
    for (const ClassScore& s : scores[d])
      if (std::find(predicted[d].begin(), predicted[d].end(), s.class_id) != predicted[d].end())
        histograms.predicted.add(s.score, right(s.class_id));
  }
  return histograms;
}

}  // namespace gpuhpc
