#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// Phase 5 of the published variants, TELEClass's classifier: encoder and bilinear head learn core
// classes and their ancestors.
struct BilinearStage {
  using Outputs = TrainedFiles;
  TaxonomyFiles taxonomy;
  EncodingFiles encoding;
  AugmentationFiles augmentation;
  LabelFiles labels;
  EncoderFiles encoder;
  ShardOptions shards;
  TrainedHeadOptions options;
  FineTuning training;
  void run(const StageContext& context, const TrainedFiles& out) const;
};

}  // namespace gpuhpc
