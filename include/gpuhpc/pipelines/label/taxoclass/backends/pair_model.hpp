#pragma once
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"

namespace gpuhpc {

// For the backend `pair`: the sentence encoder with a new head learns to tell which class a text
// entails (pair_examples.hpp). Outputs:
//   model/  a sequence classifier with the labels not_entailment and entailment, as transformers
//   loads it;  metrics.jsonl. Collective.
void run_pair_model(const StageContext& context, const TaxoclassPipelineOptions& options,
                    const InputLayout& layout);

}  // namespace gpuhpc
