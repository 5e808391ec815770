#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/label/taxoclass/backends/pair_examples.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// For the backend `pair`: the sentence encoder with a new head learns to tell which class a text
// entails (pair_examples.hpp): a sequence classifier with the labels not_entailment and entailment,
// as transformers loads it.
struct PairModelStage {
  using Outputs = TrainedFiles;
  TaxonomyFiles taxonomy;
  PairSources sources;
  EncoderFiles encoder;
  FineTuning training;
  void check() const;
  void run(const StageContext& context, const TrainedFiles& out) const;
};

}  // namespace gpuhpc
