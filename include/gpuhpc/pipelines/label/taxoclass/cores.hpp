#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// Stage 2: core classes of every document, and what the classifier learns of them; in the log, how
// many documents and classes got any.
struct CoreStage {
  using Outputs = CoreFiles;
  TaxonomyFiles taxonomy;
  EncodingFiles encoding;
  SimilarityFiles similarity;
  CoreOptions options;
  void run(const StageContext& context, const CoreFiles& out) const;
};

}  // namespace gpuhpc
