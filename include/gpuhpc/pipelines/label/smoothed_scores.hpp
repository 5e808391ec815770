#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

struct CorpusFolders {
  std::filesystem::path encoding, posterior;  // outputs of run_encoding and find_posterior
};

// What a trained `model` folder makes of the corpus, smoothed with its neighbours as the teacher's
// posterior was (quality recipe, step 11): dataset "values" (N, columns) of `output`. score(x'
// (B,H), scores (B, columns) to fill) may be called from many threads. Collective.
void write_smoothed_scores(
    const StageContext& context, const ClassifyOptions& options, const CorpusFolders& corpus,
    const std::filesystem::path& model, std::int64_t columns,
    const std::function<void(MatrixView centred, MutableMatrixView scores)>& score,
    const std::filesystem::path& output);

}  // namespace gpuhpc
