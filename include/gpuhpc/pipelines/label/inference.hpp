#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// The last phase: labels for the test texts by the trained model, as `gpuhpc predict` gives them.
struct InferenceStage {
  using Outputs = PredictionFiles;
  TrainedFiles trained;
  std::optional<CorrectedFiles> corrected;  // the same, corrected by labelled documents
  EncodingFiles encoding;  // its tokens, where the test texts are the training corpus
  TestEncodingFiles test;
  ScannedCorpus corpus;
  InferOptions infer;  // as they were encoded, for `predict`
  DecodeOptions decode;
  SubmissionOptions submission;
  void check() const;
  void run(const StageContext& context, const PredictionFiles& out) const;
};

}  // namespace gpuhpc
