#pragma once
#include "gpuhpc/stages/teleclass/pipeline.hpp"

namespace gpuhpc {

// TELEClass's classifier: encoder and bilinear head learn core classes and their ancestors. Collective.
void train_bilinear_model(const StageContext& context, const TeleclassPipelineOptions& options);

}  // namespace gpuhpc
