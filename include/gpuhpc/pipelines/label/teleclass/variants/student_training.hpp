#pragma once
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

namespace gpuhpc {

// Phase 5, quality recipe, step 11: the encoder's top layers and the path vectors learn from the
// soft targets; then the student's own posterior is smoothed as the teacher's was. Head "none"
// keeps the teacher alone. Outputs: model/ (a Hugging Face folder with gpuhpc/ beside it),
// metrics.jsonl (one line a step), ranks.jsonl (one a rank). Collective.
void train_path_model(const StageContext& context, const TeleclassPipelineOptions& options,
                      const InputLayout& layout);

}  // namespace gpuhpc
