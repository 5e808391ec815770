#pragma once
#include "gpuhpc/stages/teleclass/pipeline.hpp"

namespace gpuhpc {

// Phase 6: labels for the test texts, as `gpuhpc predict` gives them. Outputs: predictions.jsonl, submission.csv.
void run_inference(const StageContext& context, const TeleclassPipelineOptions& options, const InputLayout& layout);

}  // namespace gpuhpc
