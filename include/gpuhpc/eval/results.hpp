#pragma once
// What an evaluation leaves in the run folder: metrics.json (one flat object of figures) and
// evaluation.json (all that the report shows beside them). Only numbers and class ids: whoever
// reads these files needs no gold reader.
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/eval/documents.hpp"
#include "gpuhpc/eval/metrics.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// Which classes are taken for which of their siblings.

// The children of one parent (or the roots), k of them. A document with gold class i of the group
// adds 1 to row i: to the diagonal when i is predicted too; else in equal parts to the predicted
// siblings that are not gold; else to the last column.
struct SiblingConfusion {
  std::int32_t parent = -1;           // -1: the roots
  std::vector<std::int32_t> classes;  // (k) ascending
  // (k, k + 1): gold class x predicted sibling; last column: no other sibling predicted
  std::vector<double> counts;
  // sum off the diagonal without the last column: what the groups are ordered by
  double confused = 0;
};

// Groups of two or more classes in which anything was confused, the worst first, at most `limit`.
std::vector<SiblingConfusion> sibling_confusion(const Taxonomy& taxonomy,
                                                const LabelledDocuments& documents,
                                                std::size_t limit);

// How sure the predictions are, and how often they are right at that.

// Scores in equal bins of [0, 1]; a score outside falls into the first or last bin.
struct ScoreHistogram {
  static constexpr std::size_t bins = 20;
  std::array<std::int64_t, bins> correct{}, wrong{};  // without gold all are counted in `correct`
  std::array<double, bins> sums{};                    // of the scores s
  std::array<double, bins> variances{};               // sums of s (1 - s)
  bool probabilities = true;                          // no score was outside of [0, 1]
  void add(float score, bool right);
  std::int64_t count(std::size_t bin) const { return correct[bin] + wrong[bin]; }
  // The mean distance between a bin's share of right ones and its mean score, by their numbers
  // (Guo et al. 2017, equation 3). None without scores, or where they are no probabilities.
  std::optional<double> calibration_error() const;
  // What the error of exactly right probabilities would be on average, since so many documents show
  // a share no better: of a bin sqrt(2/pi * sum of s (1 - s)), the mean distance of a normal
  // variable. Of pairs of the same documents, which are not independent, too low.
  std::optional<double> calibration_error_by_chance() const;
};

struct ScoreHistograms {
  bool with_gold = false;
  ScoreHistogram best;       // one per document: the score of its best class
  ScoreHistogram predicted;  // one a predicted (document, class) pair
};

// N documents: `scores` in the order of sort_scores, `predicted` and `gold` ascending; `gold` may
// be empty as a whole.
ScoreHistograms score_histograms(std::span<const std::vector<ClassScore>> scores,
                                 std::span<const std::vector<std::int32_t>> predicted,
                                 std::span<const std::vector<std::int32_t>> gold);

// How many are wrong among those that are surest. `risk`: of the (i + 1) / 20 of the documents
// whose best classes score highest, the share whose best class is not gold; `area`: its mean over
// every number of documents (AURC: Geifman and El-Yaniv 2017). Empty and none without scores.
struct RiskCoverage {
  static constexpr std::size_t points = 20;
  std::vector<double> risk;
  std::optional<double> area;
};
RiskCoverage risk_coverage(std::span<const std::vector<ClassScore>> scores,
                           std::span<const std::vector<std::int32_t>> gold);

struct ExampleLabels {
  std::string id;                             // of the document
  std::vector<std::int32_t> predicted, gold;  // class ids
};

struct EvaluationDetails {
  Evaluation evaluation;
  std::vector<SiblingConfusion> confusion;  // the worst groups first
  ScoreHistograms histograms;
  RiskCoverage coverage;
  std::vector<ExampleLabels> examples;  // drawn at random by the seed, in document order
};

// evaluate() and everything beside it.
EvaluationDetails evaluate_in_detail(const Taxonomy& taxonomy, const LabelledDocuments& documents,
                                     const EvalOptions& options, int threads = 1);

// `count` of `documents` positions, ascending, drawn without replacement.
std::vector<std::int64_t> draw_examples(std::int64_t documents, std::int64_t count,
                                        std::uint64_t seed);

// {"example_f1": .5, "example_f1_low": .., "example_f1_high": .., ..., "documents": N, ...}; null
// where a figure cannot be computed.
void write_metrics(const std::filesystem::path& path, const Evaluation& evaluation);
void write_evaluation(const std::filesystem::path& path, const EvaluationDetails& details,
                      const Taxonomy& taxonomy);
// Throws input_error when the file is not one that write_evaluation wrote.
EvaluationDetails read_evaluation(const std::filesystem::path& path);

}  // namespace gpuhpc
