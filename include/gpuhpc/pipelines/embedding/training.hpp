#pragma once
// Stage 2 of train-embedding: the encoder learns from rows of texts. From none, of a corpus that
// gives no pairs, it learns nothing: the model's folder stays empty.
#include "gpuhpc/pipelines/embedding/files.hpp"
#include "gpuhpc/pipelines/embedding/task.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"

namespace gpuhpc {

struct EmbeddingTrainingStage {
  using Outputs = TrainedFiles;
  static constexpr bool exports = true;
  PairTokenFiles tokens;
  EncoderFiles encoder;
  LearntSets learnt;
  FineTuning training;
  void run(const StageContext& context, const TrainedFiles& out) const;
};

}  // namespace gpuhpc
