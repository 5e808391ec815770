#pragma once
// Stage 3 of train-embedding, on the test file (or the first validation file): how well anchors
// find their positives among those of all rows, or how their cosines follow the scores; with the
// encoder as it was and as it has become, at full width and at each Matryoshka width.
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/pipelines/embedding/files.hpp"
#include "gpuhpc/pipelines/embedding/options.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"

namespace gpuhpc {

struct EmbeddingEvaluationStage {
  using Outputs = EvaluationFiles;
  PairTokenFiles tokens;
  EncoderFiles encoder;
  TrainedFiles trained;
  PairLossOptions loss;
  InferOptions infer;
  void run(const StageContext& context, const EvaluationFiles& out) const;
};

}  // namespace gpuhpc
