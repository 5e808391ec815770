#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// The test texts' vectors by each encoder of the trained model, which other labelled documents and
// other decoding leave as they are.
struct TestEncodingStage {
  using Outputs = TestEncodingFiles;
  TrainedFiles trained;
  EncodingFiles encoding;  // its tokens, where the test texts are the training corpus
  ScannedCorpus corpus;
  ShardOptions shards;
  InferOptions infer;
  void run(const StageContext& context, const TestEncodingFiles& out) const;
};

}  // namespace gpuhpc
