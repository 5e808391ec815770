#pragma once
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"

namespace gpuhpc {

// Stage 2: core classes of every document, and what the classifier learns of them. Outputs:
//   core_classes.json  {document: core classes, with ancestors}   labels.jsonl  positives and
//   classes that do not count cores_per_class.tsv, and in the log how many documents and classes
//   got any. Collective.
void run_cores(const StageContext& context, const TaxoclassPipelineOptions& options,
               const InputLayout& layout);

}  // namespace gpuhpc
