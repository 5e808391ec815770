#include "gpuhpc/eval/pairs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
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
          {"cosine_ap", together > 0 ? precision_sum / together : 0}};
}

PairSet transitive_closure(const PairSet& pairs) {
  std::map<std::int32_t, std::vector<std::int32_t>> near;
  for (const auto& [a, b] : pairs) near[a].push_back(b), near[b].push_back(a);
  PairSet closed;
  std::set<std::int32_t> seen;
  for (const auto& [text, own] : near) {
    if (!seen.insert(text).second) continue;
    std::vector<std::int32_t> joined{text};
    for (std::size_t next = 0; next < joined.size(); ++next)
      for (const std::int32_t other : near.at(joined[next]))
        if (seen.insert(other).second) joined.push_back(other);
    for (const std::int32_t a : joined)
      for (const std::int32_t b : joined)
        if (a < b) closed.emplace(a, b);
  }
  return closed;
}

Figures paraphrase_figures(std::span<const ScoredPair> found, const PairSet& duplicates) {
  const auto wanted = static_cast<double>(duplicates.size());
  double hits = 0, before = 0, precisions = 0, f1 = 0, best_precision = 0, best_recall = 0,
         threshold = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    hits += duplicates.contains({found[i].a, found[i].b});
    const float next = found[std::min(i + 1, found.size() - 1)].cosine;
    if (i + 1 < found.size() && next == found[i].cosine) continue;  // no threshold parts them
    if (hits > before) {
      const double precision = hits / static_cast<double>(i + 1), recall = hits / wanted;
      precisions += precision * (hits - before);
      if (const double here = 2 * precision * recall / (precision + recall); here > f1) {
        f1 = here, best_precision = precision, best_recall = recall;
        threshold = (static_cast<double>(found[i].cosine) + next) / 2;
      }
    }
    before = hits;
  }
  return {{"average_precision", wanted > 0 ? precisions / wanted : 0},
          {"f1", f1},
          {"precision", best_precision},
          {"recall", best_recall},
          {"threshold", threshold}};
}

}  // namespace gpuhpc
