#pragma once
// The last stage of `train-seq2seq`: what was learnt.
#include <filesystem>

#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/pipelines/seq2seq/session.hpp"

namespace gpuhpc {

struct Seq2SeqEvaluationFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path metrics = output("metrics.json");
  std::filesystem::path table = output("evaluation.tsv");
  std::filesystem::path samples = output("samples.json");
  std::filesystem::path model = output("model");  // with its card
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
