#include "gpuhpc/labels/decoding.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/finite.hpp"
#include "gpuhpc/labels/scoring.hpp"

namespace gpuhpc {

void declare(config::Section& section, DecodeOptions& options) {
  section.option("mode", options.mode, "how class probabilities become labels")
      .one_of({"expected-f1", "chain", "threshold", "top-k"})
      .common();
  section
      .option(
          "expected-leaves", options.expected_leaves,
          "leaves a document is expected to have (1: single path, 3: faceted data); scores, the "
          "labels of expected-f1 and threshold, and review-below rest on it; 0: as many as the "
          "documents of --input.labels have, without them 1.5")
      .range(0, 100)
      .common();
  section.option("minimum", options.minimum, "expected-f1 and chain: classes at least")
      .range(1, 1000);
  section.option("maximum", options.maximum, "expected-f1: classes at most").range(1, 1000);
  section
      .option(
          "threshold", options.threshold,
          "threshold: the probability that a class needs; the best class is taken when none has it")
      .range(0, 1);
  section.option("k", options.k, "top-k: classes taken").range(1, 1000);
}

void DecodeOptions::check() const {
  if (minimum > maximum)
    throw configuration_error(
        "--decode.minimum {} is above --decode.maximum {}; lower one or raise the other", minimum,
        maximum);
}

void DecodeOptions::refuse_unread(const config::OptionSet& given) const {
  const std::pair<std::string_view, std::string_view> readers[] = {
      {"decode.minimum", "expected-f1 chain"},
      {"decode.maximum", "expected-f1"},
      {"decode.threshold", "threshold"},
      {"decode.k", "top-k"}};
  for (const std::string& name : given.given_on_command_line())
    for (const auto& [option, modes] : readers)
      if (name == option && modes.find(mode) == std::string_view::npos)
        throw usage_error(
            "--{} {}: --decode.mode {} does not read it; leave it out, or choose --decode.mode {}",
            name, given.value(name), mode, modes.substr(0, modes.find(' ')));
}

double membership(double marginal, double expected_leaves) {
  const double m = std::clamp(marginal, 0., 1.);
  return expected_leaves == 1 ? m : 1 - std::pow(1 - m, expected_leaves);
}

double flatness(double expected_leaves) { return std::pow(expected_leaves, .25); }

double probability(double marginal, double expected_leaves, double softmax_leaves) {
  const double m = std::clamp(marginal, 0., 1.);
  if (expected_leaves == 1 && softmax_leaves == 1) return m;
  const double p = membership(m, expected_leaves);
  return p / (p + std::pow(1 - m, flatness(softmax_leaves)));
}

namespace {

// Floats round the largest to 1. Those that were apart stay apart, or a class's place among the
// best would be that of its number.
void keep_apart(std::span<const float> before, std::span<float> after) {
  if (std::ranges::count(after, 1.F) < 2) return;
  std::vector<std::size_t> order(before.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t c) { return before[c]; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (before[order[i]] < before[order[i - 1]])
      after[order[i]] = std::min(after[order[i]], std::nextafter(after[order[i - 1]], 0.F));
}

}  // namespace

void to_memberships(MutableMatrixView marginals, double expected_leaves) {
  if (expected_leaves == 1) return;
  std::vector<float> before;
  for (std::int64_t i = 0; i < marginals.rows; ++i) {
    const auto row = marginals.row(i);
    before.assign(row.begin(), row.end());
    for (float& value : row)
      value = static_cast<float>(membership(static_cast<double>(value), expected_leaves));
    keep_apart(before, row);
  }
}

void to_probabilities(MutableMatrixView marginals, double expected_leaves, double softmax_leaves) {
  if (expected_leaves == 1 && softmax_leaves == 1) return;
  for (std::int64_t i = 0; i < marginals.rows; ++i)
    for (float& value : marginals.row(i))
      value = static_cast<float>(
          probability(static_cast<double>(value), expected_leaves, softmax_leaves));
}

Decoder::Decoder(const Taxonomy& taxonomy, const DecodeOptions& options)
    : taxonomy_(taxonomy), options_(options) {
  options.check();
}

std::vector<float> Decoder::probabilities(std::span<const float> marginals) const {
  std::vector<float> q(marginals.begin(), marginals.end());
  to_probabilities({q.data(), 1, std::ssize(q)}, options_.leaves());
  return q;
}

std::vector<float> Decoder::memberships(std::span<const float> marginals) const {
  std::vector<float> p(marginals.size());
  for (std::size_t c = 0; c < p.size(); ++c)
    p[c] = static_cast<float>(membership(static_cast<double>(marginals[c]), options_.leaves()));
  return p;
}

std::vector<ClassId> Decoder::ranked(std::span<const float> scores, std::size_t count) const {
  std::vector<ClassId> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto last = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), last, order.end(), [&](ClassId a, ClassId b) {
    const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    if (x != y) return x > y;
    const auto da = taxonomy_.depth(a), db = taxonomy_.depth(b);
    return da != db ? da < db : a < b;
  });
  order.erase(last, order.end());
  return order;
}

std::vector<ClassId> Decoder::decode(std::span<const float> marginals,
                                     std::span<const float> posterior, bool told) const {
  if (find_not_finite({marginals.data(), 1, std::ssize(marginals)}))
    throw internal_error("scores are decoded that were not checked: one is not finite");
  if (told) return ranked(marginals, static_cast<std::size_t>(std::ranges::count(marginals, 1.0F)));
  if (options_.mode == "expected-f1") return expected_f1(marginals, posterior);
  if (options_.mode == "chain") return chain(marginals);
  if (options_.mode == "top-k") return ranked(marginals, static_cast<std::size_t>(options_.k));
  const std::vector<float> q = probabilities(marginals);
  const auto passing = std::ranges::count_if(
      q, [&](float one) { return static_cast<double>(one) >= options_.threshold; });
  return ranked(q, static_cast<std::size_t>(std::max<std::ptrdiff_t>(passing, 1)));
}

// The k best classes maximise the expected F1 when true sets are near their expected size: E F1 ~ 2
// E|T and P| / (|P| + E|T|).
std::vector<ClassId> Decoder::expected_f1(std::span<const float> marginals,
                                          std::span<const float> posterior) const {
  const std::vector<float> p = memberships(marginals);
  std::vector<ClassId> order = ranked(p, static_cast<std::size_t>(options_.maximum));
  double expected = 0;
  for (const float value : p) expected += value;
  // As in chain(): no path of the best class is longer than that.
  std::size_t longest = 1;
  for (const std::int32_t k : taxonomy_.paths_through(order.front()))
    longest = std::max(longest, taxonomy_.paths()[static_cast<std::size_t>(k)].size());
  const auto least = std::min({order.size(), longest, static_cast<std::size_t>(options_.minimum)});
  double hits = 0, best = -1;
  std::size_t taken = least;
  for (std::size_t k = 1; k <= order.size(); ++k) {
    hits += p[static_cast<std::size_t>(order[k - 1])];
    const double value = 2 * hits / (static_cast<double>(k) + expected);
    if (k >= least && value > best) {
      best = value;
      taken = k;
    }
  }
  order.resize(taken);
  add_best_paths(p, posterior, order);
  return order;
}

void Decoder::add_best_paths(std::span<const float> scores, std::span<const float> posterior,
                             std::vector<ClassId>& accepted) const {
  std::vector<bool> in(scores.size());
  for (const ClassId c : accepted) in[static_cast<std::size_t>(c)] = true;
  const auto& paths = taxonomy_.paths();
  std::vector<ClassId> added;
  for (const ClassId c : accepted) {
    double best = -1;
    std::int32_t best_path = -1;
    for (const std::int32_t k : taxonomy_.paths_through(c)) {
      double value = 0;
      if (!posterior.empty())
        value = posterior[static_cast<std::size_t>(k)];
      else
        for (const ClassId step : paths[static_cast<std::size_t>(k)])
          value += scores[static_cast<std::size_t>(step)];
      if (value > best) {
        best = value;
        best_path = k;
      }
    }
    for (const ClassId step : paths[static_cast<std::size_t>(best_path)]) {
      if (step == c) break;
      if (!in[static_cast<std::size_t>(step)]) {
        in[static_cast<std::size_t>(step)] = true;
        added.push_back(step);
      }
    }
  }
  if (added.empty()) return;
  std::vector<ClassId> closed;
  for (const ClassId c : ranked(scores, scores.size()))
    if (in[static_cast<std::size_t>(c)]) closed.push_back(c);
  accepted = std::move(closed);
}

// The prefix of one path with the best expected F1: it stops where the next class is more likely
// wrong than worth it.
std::vector<ClassId> Decoder::chain(std::span<const float> marginals) const {
  double expected = 0;
  for (const float value : marginals) expected += value;
  const auto& paths = taxonomy_.paths();
  double best = -1;
  ClassPath taken;
  for (const ClassPath& path : paths) {
    const auto least = std::min(path.size(), static_cast<std::size_t>(options_.minimum));
    double hits = 0;
    for (std::size_t k = 1; k <= path.size(); ++k) {
      hits += marginals[static_cast<std::size_t>(path[k - 1])];
      const double value = 2 * hits / (static_cast<double>(k) + expected);
      if (k < least || value <= best) continue;
      best = value;
      taken.assign(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  return taken;
}

void leaf_probabilities(const Taxonomy& taxonomy, double expected_leaves, MatrixView posterior,
                        MutableMatrixView probabilities) {
  path_marginals(taxonomy, posterior, probabilities);
  to_memberships(probabilities, expected_leaves);
}

}  // namespace gpuhpc
