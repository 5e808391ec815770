#pragma once
#include <optional>

#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

#include "gpuhpc/pipelines/label/taxoclass/graph/graph_model.hpp"
namespace gpuhpc {

// Stage 4: the classifier learns from its own confident labels, for as long as held-out silver
// labels agree; then the model that labels new text is put together.
struct SelfTrainingStage {
  using Outputs = SelfTrainingFiles;
  GraphInputs inputs;
  std::optional<PosteriorFiles> posterior;  // of the sentence encoder, where something reads it
  GraphModelFiles classifier;
  ScannedCorpus corpus;
  EncoderFiles teacher;
  InferOptions infer;
  PathScoring scoring;
  SelfTrainingOptions options;
  FineTuning training;
  void check() const;
  void run(const StageContext& context, const SelfTrainingFiles& out) const;
};

}  // namespace gpuhpc
