#pragma once
// The job pretrain: texts -> vocabulary -> token shards -> a masked-language model -> its
// perplexity.
#include <filesystem>

#include "gpuhpc/pipelines/options.hpp"
#include "gpuhpc/pipelines/pretrain/files.hpp"
#include "gpuhpc/pipelines/pretrain/options.hpp"
#include "gpuhpc/pipelines/pretrain/texts.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

// Stages vocabulary (where one is learnt), tokens, start (of a new model), short-training
// (where that is asked for), training, perplexity; and what the training reads.
struct PretrainPipeline {
  Pipeline stages;
  TokenizerSource tokenizer;
  Pretraining training;
};
PretrainPipeline pretrain_pipeline(const SharedOptions& shared, const PretrainOptions& options,
                                   const PretrainInputs& inputs,
                                   const std::filesystem::path& run_folder);

}  // namespace gpuhpc
