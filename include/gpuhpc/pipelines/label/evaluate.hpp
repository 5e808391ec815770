#pragma once
// Predictions against gold: the only stage that may see gold labels, and nothing learns after it.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/eval/results.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// Reads gold and forgets it: a file that cannot be used, or of which no document that is to be
// measured is among the texts, should stop a run before it computes for hours. `left_out` as below,
// on the root. Collective.
void check_gold(const Taxonomy& taxonomy, const std::filesystem::path& gold,
                const CorpusScan& texts, std::span<const std::string> left_out, Communicator& comm);

struct Measured {
  EvaluationDetails details;
  std::vector<std::string> warnings;  // of documents that only one of the two files has
};
// One process's work. `left_out`: documents whose classes were given to the model, which say
// nothing about it.
Measured measure_predictions(const Taxonomy& taxonomy, const std::filesystem::path& predictions,
                             const std::filesystem::path& gold, const EvalOptions& options,
                             int threads, std::span<const std::string> left_out = {});
// metrics.json and evaluation.json.
void write_measures(const std::filesystem::path& folder, const EvaluationDetails& details,
                    const Taxonomy& taxonomy);

}  // namespace gpuhpc
