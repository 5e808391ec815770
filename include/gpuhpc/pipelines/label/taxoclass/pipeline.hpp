#pragma once
// The stages of TaxoClass in order: encoding, posterior, similarity (with the backend `pair` behind
// pair-model), cores, classifier, self-training, inference.
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/pipelines/label/inputs.hpp"

namespace gpuhpc {

Pipeline taxoclass_pipeline(const SharedOptions& shared, const LabelOptions& options,
                            const LabelInputs& inputs, const std::filesystem::path& run_folder);

// As teleclass_preset: `recommended` and `fixed` are the defaults, `paper` the published method.
std::vector<std::pair<std::string, std::string>> taxoclass_preset(const std::string& name,
                                                                  double expected_leaves);

}  // namespace gpuhpc
