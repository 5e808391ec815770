#pragma once
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"

namespace gpuhpc {

// Stage 4: the classifier learns from its own confident labels, for as long as held-out silver
// labels agree. Outputs: model/, metrics.jsonl,
//   self_training.tsv  agreement, stability and entropy at every new target distribution.
//   Collective.
void run_self_training(const StageContext& context, const TaxoclassPipelineOptions& options,
                       const InputLayout& layout);

}  // namespace gpuhpc
