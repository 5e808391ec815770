#pragma once
// Stages of `pretrain` before anything is trained: a vocabulary of these texts, a new model, and
// the texts as token shards.
#include <optional>

#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/pretrain/files.hpp"
#include "gpuhpc/pipelines/pretrain/options.hpp"

namespace gpuhpc {

struct VocabularyStage {
  using Outputs = VocabularyFiles;
  PretrainInputs texts;
  VocabularyOptions options;
  void run(const StageContext& context, const VocabularyFiles& out) const;
};

// A model of one of the three sizes with new weights: a BERT, or a RoBERTa where the tokenizer is
// a byte-level BPE learnt here.
struct NewModelStage {
  using Outputs = NewModelFiles;
  NewModelOptions options;
  std::optional<VocabularyOptions> vocabulary;  // of the tokenizer that was learnt here
  TokenizerSource tokenizer;
  SeedOption seed;
  void run(const StageContext& context, const NewModelFiles& out) const;
};

struct TextTokensStage {
  using Outputs = TextTokenFiles;
  PretrainInputs texts;
  TokenizerSource tokenizer;
  ShardOptions shards;
  void run(const StageContext& context, const TextTokenFiles& out) const;
};
}  // namespace gpuhpc
