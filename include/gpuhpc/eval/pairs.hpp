#pragma once
// How well distances of vectors tell which texts belong together.
#include <span>

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

}  // namespace gpuhpc
