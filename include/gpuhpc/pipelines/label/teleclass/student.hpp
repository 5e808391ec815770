#pragma once
#include <optional>

#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// Phase 5, quality recipe, step 11: the encoder's top layers and the path vectors learn from the
// soft targets; then the student's own posterior is smoothed as the teacher's was. Without a
// training the teacher stays alone.
struct StudentStage {
  using Outputs = TrainedFiles;
  TaxonomyFiles taxonomy;
  EncodingFiles encoding;
  PosteriorFiles posterior;
  std::optional<TargetFiles> targets;  // where there is a training
  ScannedCorpus corpus;
  EncoderFiles encoder;
  InferOptions infer;
  PathScoring scoring;
  std::optional<FineTuning> training;
  void run(const StageContext& context, const TrainedFiles& out) const;
};

}  // namespace gpuhpc
