#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// Phase 5 where texts have several leaves, quality recipe, step 11: the encoder's top layers and
// class vectors learn each document's core classes, each class by itself.
struct ClassStudentStage {
  using Outputs = GraphModelFiles;
  TaxonomyFiles taxonomy;
  EncodingFiles encoding;
  PosteriorFiles posterior;
  CoreFiles cores;
  ScannedCorpus corpus;
  EncoderFiles encoder;
  InferOptions infer;
  PathScoring scoring;
  FineTuning training;
  void run(const StageContext& context, const GraphModelFiles& out) const;
};

}  // namespace gpuhpc
