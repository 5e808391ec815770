#pragma once
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

namespace gpuhpc {

// Phase 2: which documents are about which classes: the outputs of find_posterior, or those of a
// published refinement, and
//   refined_core_classes.json  {document: [classes]}
void run_refinement(const StageContext& context, const TeleclassPipelineOptions& options,
                    const InputLayout& layout);

}  // namespace gpuhpc
