#pragma once
// Stages of `train-seq2seq`: a new model, both texts of each pair as token shards, the training.
#include "gpuhpc/pipelines/seq2seq/session.hpp"

namespace gpuhpc {

// A T5 of one of the published sizes with new weights.
struct NewT5Stage {
  using Outputs = NewModelFiles;
  NewT5Options options;
  ModelFiles tokenizer;
  SeedOption seed;
  void run(const StageContext& context, const NewModelFiles& out) const;
};

struct Seq2SeqTokensStage {
  using Outputs = Seq2SeqTokenFiles;
  ScannedTextPairs train, validation;
  ModelFiles tokenizer;
  ShardOptions shards;
  void run(const StageContext& context, const Seq2SeqTokenFiles& out) const;
};

struct Seq2SeqTrainingStage {
  using Outputs = TrainedFiles;
  static constexpr bool exports = true;
  Seq2SeqLearning learning;
  SourcePrefix prefix;
  void run(const StageContext& context, const TrainedFiles& out) const;
};

}  // namespace gpuhpc
