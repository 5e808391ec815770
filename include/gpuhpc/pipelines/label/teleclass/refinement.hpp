#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// Phase 2 as published by TELEClass (`paper`, `code`) and as its multi-GPU variant has it: which
// documents are about which classes, in the published formats.
struct PublishedRefinementStage {
  using Outputs = PublishedRefinementFiles;
  TaxonomyFiles taxonomy;
  ClassFiles classes;
  EncodingFiles encoding;
  EncoderFiles encoder;
  ClassPromptOption class_prompt;
  InferOptions infer;
  RefinementOptions options;
  void run(const StageContext& context, const PublishedRefinementFiles& out) const;
};

}  // namespace gpuhpc
