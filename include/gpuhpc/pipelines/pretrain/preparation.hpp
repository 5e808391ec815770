#pragma once
// Stages of `pretrain` before anything is learnt: a new model, and the texts as token shards.
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/pretrain/files.hpp"
#include "gpuhpc/pipelines/pretrain/options.hpp"

namespace gpuhpc {

// A BERT of one of the three sizes with new weights.
struct NewModelStage {
  using Outputs = NewModelFiles;
  NewModelOptions options;
  ModelFiles tokenizer;
  SeedOption seed;
  void run(const StageContext& context, const NewModelFiles& out) const;
};

struct TextTokensStage {
  using Outputs = TextTokenFiles;
  PretrainInputs texts;
  ModelFiles tokenizer;
  ShardOptions shards;
  void run(const StageContext& context, const TextTokenFiles& out) const;
};
}  // namespace gpuhpc
