#pragma once
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"

namespace gpuhpc {

// sim(d, c) of every document and class. Outputs: similarity.h5  "values" (N,C) in 0..1; -1 where
// nobody asked. Collective.
void run_similarity(const StageContext& context, const TaxoclassPipelineOptions& options,
                    const InputLayout& layout);

}  // namespace gpuhpc
