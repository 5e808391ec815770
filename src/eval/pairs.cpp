#include "gpuhpc/eval/pairs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace gpuhpc {
namespace {

struct Nearness {
  double cosine = 0, euclidean = 0, manhattan = 0;  // larger is nearer
};
Nearness nearness(std::span<const float> a, std::span<const float> b) {
  double product = 0, squares_a = 0, squares_b = 0, squares = 0, sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    product += x * y, squares_a += x * x, squares_b += y * y;
    squares += (x - y) * (x - y), sum += std::abs(x - y);
  }
  const double lengths = std::sqrt(squares_a * squares_b);
  return {lengths > 0 ? product / lengths : 0, -std::sqrt(squares), -sum};
}

}  // namespace

Figures triplet_figures(MatrixView anchors, MatrixView positives, MatrixView negatives) {
  double cosine = 0, euclidean = 0, manhattan = 0;
  for (std::int64_t i = 0; i < anchors.rows; ++i) {
    const Nearness good = nearness(anchors.row(i), positives.row(i)),
                   bad = nearness(anchors.row(i), negatives.row(i));
    cosine += good.cosine > bad.cosine;
    euclidean += good.euclidean > bad.euclidean;
    manhattan += good.manhattan > bad.manhattan;
  }
  const auto rows = static_cast<double>(anchors.rows);
  return {{"cosine_accuracy", cosine / rows},
          {"euclidean_accuracy", euclidean / rows},
          {"manhattan_accuracy", manhattan / rows}};
}

Figures pair_figures(std::span<const float> cosines, std::span<const float> labels) {
  std::vector<std::size_t> order(cosines.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return cosines[i]; });
  const auto pairs = static_cast<double>(order.size());
  const double together = std::accumulate(labels.begin(), labels.end(), 0.);
  double hits = 0, precision_sum = 0;
  double accuracy = (pairs - together) / pairs, f1 = 0, precision = 0, recall = 0;
  float accuracy_threshold =
            std::nextafter(cosines[order.front()], std::numeric_limits<float>::infinity()),
        f1_threshold = 0;
  for (std::size_t i = 0, first = 0; i < order.size(); ++i) {
    hits += labels[order[i]];
    const bool last = i + 1 == order.size();
    const float here = cosines[order[i]], next = last ? here : cosines[order[i + 1]];
    if (!last && next == here) continue;  // no threshold parts equal cosines
    double new_hits = 0;
    for (; first <= i; ++first) new_hits += labels[order[first]];
    const float middle = (here + next) / 2, threshold = middle == next ? here : middle;
    const auto taken = static_cast<double>(i + 1);
    const double right = hits + (pairs - together) - (taken - hits);
    if (right / pairs > accuracy) accuracy = right / pairs, accuracy_threshold = threshold;
    if (2 * hits / (taken + together) > f1) {
      f1 = 2 * hits / (taken + together), f1_threshold = threshold;
      precision = hits / taken, recall = hits / together;
    }
    precision_sum += new_hits * hits / taken;
  }
  return {{"cosine_accuracy", accuracy},
          {"cosine_accuracy_threshold", accuracy_threshold},
          {"cosine_f1", f1},
          {"cosine_f1_threshold", f1_threshold},
          {"cosine_precision", precision},
          {"cosine_recall", recall},
          {"cosine_ap", precision_sum / together}};
}

}  // namespace gpuhpc
