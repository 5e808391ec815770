#pragma once
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

namespace gpuhpc {

// Phase 3: more training texts for classes that have few. Outputs:
//   generated_docs.txt, generated_doc2label.json   in the documented formats (no rows when there is
//   nothing to add)
void run_augmentation(const StageContext& context, const TeleclassPipelineOptions& options,
                      const InputLayout& layout);

}  // namespace gpuhpc
