#pragma once
// The six phases of TELEClass in order: encoding, refinement, augmentation, hierarchy, training,
// inference.
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/pipelines/label/inputs.hpp"

namespace gpuhpc {

Pipeline teleclass_pipeline(const SharedOptions& shared, const LabelOptions& options,
                            const LabelInputs& inputs, const std::filesystem::path& run_folder);

// The values that --pipeline.preset puts under the user's own: "section.key" -> value. Throws
// usage_error for an unknown name.
std::vector<std::pair<std::string, std::string>> teleclass_preset(const std::string& name,
                                                                  double expected_leaves);

}  // namespace gpuhpc
