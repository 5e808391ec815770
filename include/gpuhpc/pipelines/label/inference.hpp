#pragma once
#include <filesystem>

#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

// The last phase: labels for the test texts by the finished `model` folder, as `gpuhpc predict`
// gives them. Outputs: predictions.jsonl, submission.csv and, unless they are the
// training texts, tokens/: shards of the test corpus with its texts.
void run_inference(const StageContext& context, const ClassifyOptions& options,
                   const InputLayout& layout, const std::filesystem::path& model);

}  // namespace gpuhpc
