#pragma once
// The job train-seq2seq: pairs of texts -> token shards -> a T5 -> its loss and its texts.
#include <filesystem>

#include "gpuhpc/pipelines/options.hpp"
#include "gpuhpc/pipelines/seq2seq/files.hpp"
#include "gpuhpc/pipelines/seq2seq/options.hpp"

namespace gpuhpc {

// Stages start (of a new model), tokens, training, evaluation.
Pipeline seq2seq_pipeline(const SharedOptions& shared, const Seq2SeqOptions& options,
                          const Seq2SeqInputs& inputs, const std::filesystem::path& run_folder);

}  // namespace gpuhpc
