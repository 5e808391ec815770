#pragma once
// What the stage lists of both methods share.
#include <string>
#include <vector>

#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

Stage encoding_stage(const ClassifyOptions& options, const InputLayout& layout);
// `trained`: the stage that leaves the model/ folder.
Stage inference_stage(const ClassifyOptions& options, const InputLayout& layout,
                      const std::string& trained);

// These names and those that say how a corpus file is read.
std::vector<std::string> with_corpus_options(std::vector<std::string> names);
// Of [train]: how it is computed, not what.
std::vector<std::string> free_training_options();

}  // namespace gpuhpc
