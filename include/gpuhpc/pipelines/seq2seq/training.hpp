#pragma once
// Stages of `train-seq2seq`: a new model, both texts of each pair as token shards, the training,
// and what was learnt.
#include <filesystem>
#include <optional>

#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/seq2seq/files.hpp"

namespace gpuhpc {

// A T5 of one of the published sizes with new weights.
struct NewT5Stage {
  using Outputs = NewT5Files;
  NewT5Options options;
  ModelFiles tokenizer;
  SeedOption seed;
  void run(const StageContext& context, const NewT5Files& out) const;
};

struct Seq2SeqTokensStage {
  using Outputs = Seq2SeqTokenFiles;
  ScannedTextPairs train, validation;
  ModelFiles tokenizer;
  ShardOptions shards;
  void run(const StageContext& context, const Seq2SeqTokenFiles& out) const;
};

// The model that is begun with: one made here, or a folder of the user's.
struct StartT5 {
  std::optional<NewT5Files> made;
  ModelFiles given;
  const std::filesystem::path& folder() const { return made ? made->model : given.path; }
};
struct Seq2SeqLearning {
  Seq2SeqTokenFiles tokens;
  StartT5 start;
  Seq2SeqLearningOptions options;
  FineTuning training;
};
// What comes before each source: the model carries it.
struct SourcePrefix {
  std::string text;
  std::vector<std::string> settings() const { return {"seq2seq.prefix = " + text}; }
};

struct Seq2SeqTrainingStage {
  using Outputs = TrainedFiles;
  Seq2SeqLearning learning;
  SourcePrefix prefix;
  void run(const StageContext& context, const TrainedFiles& out) const;
};

struct Seq2SeqEvaluationFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path metrics = output("metrics.json");
  std::filesystem::path table = output("evaluation.tsv");
  std::filesystem::path samples = output("samples.tsv");
};
// The held-out pairs: loss and perplexity of a target's token before and after; and the trained
// model's texts against the targets (ROUGE), beside the first sentences of the sources.
struct Seq2SeqEvaluationStage {
  using Outputs = Seq2SeqEvaluationFiles;
  Seq2SeqLearning learning;
  TrainedFiles trained;
  SourcePrefix prefix;
  Seq2SeqEvaluationOptions options;
  GenerateOptions generation;
  InferOptions infer;
  void run(const StageContext& context, const Seq2SeqEvaluationFiles& out) const;
};

}  // namespace gpuhpc
