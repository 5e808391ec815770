#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// Phase 3: more training texts for classes that have few, in the documented formats; no rows when
// there is nothing to add.
struct AugmentationStage {
  using Outputs = AugmentationFiles;
  TaxonomyFiles taxonomy;
  ClassFiles classes;
  EncodingFiles encoding;
  RefinedFiles refined;
  EncoderFiles encoder;
  InferOptions infer;
  AugmentationOptions options;
  SeedOption seed;
  void check() const;
  void run(const StageContext& context, const AugmentationFiles& out) const;
};

}  // namespace gpuhpc
