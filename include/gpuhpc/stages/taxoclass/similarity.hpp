#pragma once
#include "gpuhpc/stages/taxoclass/pipeline.hpp"

namespace gpuhpc {

// Stage 1: sim(d, c) of every document and class. Outputs: those of run_encoding and find_posterior, and
//   similarity.h5  "values" (N,C) in 0..1. Collective.
void run_similarity(const StageContext& context, const TaxoclassPipelineOptions& options, const InputLayout& layout);

}  // namespace gpuhpc
