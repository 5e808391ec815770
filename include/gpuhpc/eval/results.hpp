#pragma once
// What an evaluation leaves in the run folder: metrics.json (one flat object of figures) and
// evaluation.json (all that the report shows beside them). Only numbers and class ids: whoever
// reads these files needs no gold reader.
#include <filesystem>
#include <string>
#include <vector>

#include "gpuhpc/eval/confusion.hpp"
#include "gpuhpc/eval/histogram.hpp"
#include "gpuhpc/eval/metrics.hpp"

namespace gpuhpc {

struct ExampleLabels {
  std::string id;                             // of the document
  std::vector<std::int32_t> predicted, gold;  // class ids
};

struct EvaluationDetails {
  Evaluation evaluation;
  std::vector<SiblingConfusion> confusion;  // the worst groups first
  ScoreHistograms histograms;
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
