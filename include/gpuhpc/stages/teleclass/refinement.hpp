#pragma once
#include "gpuhpc/stages/teleclass/pipeline.hpp"

namespace gpuhpc {

// Phase 2: which documents are about which classes (quality recipe, steps 3 to 8, or a published refinement). Outputs:
//   paths.h5      "vectors" (K,H), "hubness" (K), "idf" (T)   first_posterior.h5  "values" (N,K) P1
//   posterior.h5  "values" (N,K) F                            neighbours.h5       sparse A (N,N); tfidf.h5 terms and idf
//   refined_core_classes.json  {document: [classes]}
void run_refinement(const StageContext& context, const TeleclassPipelineOptions& options, const InputLayout& layout);

}  // namespace gpuhpc
