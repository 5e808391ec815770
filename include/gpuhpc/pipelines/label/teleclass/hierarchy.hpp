#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// Phase 4: what the student is to learn (quality recipe, steps 9 and 11).
struct SoftTargetStage {
  using Outputs = TargetFiles;
  TaxonomyFiles taxonomy;
  PosteriorFiles posterior;
  TargetOptions options;
  void run(const StageContext& context, const TargetFiles& out) const;
};

// Phase 4 of the published variants: positives and masked classes of each document, generated
// documents last.
struct TrainingLabelStage {
  using Outputs = LabelFiles;
  TaxonomyFiles taxonomy;
  EncodingFiles encoding;
  RefinedFiles refined;
  AugmentationFiles augmentation;
  void run(const StageContext& context, const LabelFiles& out) const;
};

}  // namespace gpuhpc
