#pragma once
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

namespace gpuhpc {

// The refinements of TELEClass (`paper`, `code`) and of its multi-GPU variant. Outputs, in the
// published formats:
//   init_core_classes.json  enrichment.txt  refined_core_classes.json  class_vectors.h5 "values"
//   (C,H)
void refine_as_published(const StageContext& context, const TeleclassPipelineOptions& options,
                         const InputLayout& layout, const Taxonomy& taxonomy);

}  // namespace gpuhpc
