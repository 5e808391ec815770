#pragma once
// The job train-embedding: rows of texts -> aligned token shards -> an encoder whose vectors find
// what belongs together -> how well they do.
#include <filesystem>

#include "gpuhpc/pipelines/embedding/files.hpp"
#include "gpuhpc/pipelines/embedding/options.hpp"
#include "gpuhpc/pipelines/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

// Stages tokens, training, evaluation, card.
Pipeline embedding_pipeline(const SharedOptions& shared, const EmbeddingOptions& options,
                            const PairInputs& inputs, const std::filesystem::path& run_folder);

// The job mine: stages tokens, vectors, mining.
Pipeline mining_pipeline(const SharedOptions& shared, const EmbeddingOptions& options,
                         const PairInputs& inputs, const std::filesystem::path& run_folder);

}  // namespace gpuhpc
