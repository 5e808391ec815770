#pragma once
#include "gpuhpc/stages/teleclass/pipeline.hpp"

namespace gpuhpc {

// Phase 5: the classifier. Outputs: model/ (a Hugging Face folder with gpuhpc/ beside it), metrics.jsonl (one line a step).
void run_training(const StageContext& context, const TeleclassPipelineOptions& options, const InputLayout& layout);

}  // namespace gpuhpc
