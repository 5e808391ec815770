#pragma once
// How well distances of vectors tell which texts belong together.
#include <cstdint>
#include <set>
#include <span>
#include <utility>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/eval/retrieval.hpp"

namespace gpuhpc {

// The share of rows whose positive is strictly nearer to the anchor than the negative:
// cosine_accuracy, euclidean_accuracy, manhattan_accuracy.
Figures triplet_figures(MatrixView anchors, MatrixView positives, MatrixView negatives);

// Pairs with label 1 (they belong together) or 0, told apart by a threshold of their cosines:
// cosine_accuracy and cosine_f1, each at the threshold that is best for it, and these thresholds
// (half way to the next pair); precision and recall of that F1; cosine_ap, the mean precision at
// each pair that belongs together, pairs of one cosine at once.
Figures pair_figures(std::span<const float> cosines, std::span<const float> labels);

// Two texts of one set, a < b, and their cosine.
struct ScoredPair {
  float cosine = 0;
  std::int32_t a = 0, b = 0;
};
using PairSet = std::set<std::pair<std::int32_t, std::int32_t>>;  // of texts, the lower one first
// With every two texts that a chain of pairs joins.
PairSet transitive_closure(const PairSet& pairs);
// Of the pairs that were found in a set of texts, best first: average_precision over all
// duplicates; f1, precision and recall at the threshold with the best F1, and that threshold. Pairs
// of one cosine at once. As sentence-transformers' ParaphraseMiningEvaluator.
Figures paraphrase_figures(std::span<const ScoredPair> found, const PairSet& duplicates);

}  // namespace gpuhpc
