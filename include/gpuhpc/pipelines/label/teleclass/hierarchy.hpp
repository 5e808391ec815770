#pragma once
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

namespace gpuhpc {

// Phase 4: what the classifier is to learn (quality recipe, steps 9 and 11). Outputs:
//   targets.h5  "values" (N,K) Q         documents_per_class.tsv  expected documents of each class
//   labels.jsonl  positives and masked classes of each document (bilinear head)
void run_hierarchy(const StageContext& context, const TeleclassPipelineOptions& options,
                   const InputLayout& layout);

}  // namespace gpuhpc
