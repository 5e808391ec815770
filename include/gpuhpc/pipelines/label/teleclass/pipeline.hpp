#pragma once
// The six phases of TELEClass in order: encoding, refinement, augmentation, hierarchy, training,
// inference.
#include <vector>

#include "gpuhpc/data/layout.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/label/teleclass/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

struct TeleclassPipelineOptions : ClassifyOptions {
  TeleclassOptions teleclass;
};

std::vector<Stage> teleclass_stages(const TeleclassPipelineOptions& options,
                                    const InputLayout& layout);

// The values that --pipeline.preset puts under the user's own: "section.key" -> value. Throws
// usage_error for an unknown name.
std::vector<std::pair<std::string, std::string>> teleclass_preset(const std::string& name);

}  // namespace gpuhpc
