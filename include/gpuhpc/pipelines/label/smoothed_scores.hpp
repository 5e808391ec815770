#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"

namespace gpuhpc {

// The corpus as the stages before training left it, and how its scores are made.
struct ScoredCorpus {
  const EncodingFiles& encoding;
  const PosteriorFiles& posterior;
  const InferOptions& infer;
  const PathScoring& scoring;
};

// What a trained `model` folder makes of the corpus, smoothed with its neighbours as the teacher's
// posterior was (quality recipe, step 11): dataset "values" (N, columns) of `output`. score(x'
// (B,H), scores (B, columns) to fill) may be called from many threads. Collective.
void write_smoothed_scores(
    const StageContext& context, const ScoredCorpus& corpus, const std::filesystem::path& model,
    std::int64_t columns,
    const std::function<void(MatrixView centred, MutableMatrixView scores)>& score,
    const std::filesystem::path& output);

}  // namespace gpuhpc
