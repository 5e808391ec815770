#pragma once
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

namespace gpuhpc {

// Phase 5 of the published variants, TELEClass's classifier: encoder and bilinear head learn core
// classes and their ancestors. Outputs as train_path_model's. Collective.
void train_bilinear_model(const StageContext& context, const TeleclassPipelineOptions& options,
                          const InputLayout& layout);

}  // namespace gpuhpc
