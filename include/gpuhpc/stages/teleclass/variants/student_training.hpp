#pragma once
#include "gpuhpc/stages/teleclass/pipeline.hpp"

namespace gpuhpc {

// Quality recipe, step 11: the encoder's top layers and the path vectors learn from the soft targets; then the student's
// own posterior is smoothed as the teacher's was. Head "none" keeps the teacher alone. Collective.
void train_path_model(const StageContext& context, const TeleclassPipelineOptions& options, const InputLayout& layout);

}  // namespace gpuhpc
