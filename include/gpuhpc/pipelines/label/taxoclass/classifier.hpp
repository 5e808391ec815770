#pragma once
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"

namespace gpuhpc {

// Stage 3: encoder and graph head learn the silver labels. Outputs: model/, metrics.jsonl, graph.h5
// (the head's parameters). Collective.
void run_classifier(const StageContext& context, const TaxoclassPipelineOptions& options,
                    const InputLayout& layout);

}  // namespace gpuhpc
