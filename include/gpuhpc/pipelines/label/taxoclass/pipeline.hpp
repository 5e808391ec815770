#pragma once
// The stages of TaxoClass in order: encoding, posterior, similarity (with the backend `pair` behind
// pair-model), cores, classifier, self-training, inference.
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/data/layout.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/label/taxoclass/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

struct TaxoclassPipelineOptions : ClassifyOptions {
  TaxoclassOptions taxoclass;
};

std::vector<Stage> taxoclass_stages(const TaxoclassPipelineOptions& options,
                                    const InputLayout& layout);

// As teleclass_preset: `recommended` and `fixed` are the defaults, `paper` the published method.
std::vector<std::pair<std::string, std::string>> taxoclass_preset(const std::string& name);

}  // namespace gpuhpc
