#pragma once
#include <filesystem>

#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"

namespace gpuhpc {

// similarity.h5 by the cross-encoder in the folder `model`: sim(d, c) = P(entailment | premise d,
// hypothesis: the template filled with c's name), scored level by level along the top-down search
// alone, or for all classes with taxoclass.full-matrix; -1 where nobody asked. Blocks of documents
// that are done wait in the checkpoint folder, so a stopped run goes on after them. The same bits
// on any number of ranks. Collective.
void write_entailment(const StageContext& context, const TaxoclassPipelineOptions& options,
                      const Taxonomy& taxonomy, const std::filesystem::path& model);

}  // namespace gpuhpc
