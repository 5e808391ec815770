#pragma once
#include "gpuhpc/pipelines/label/class_encoding.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// The first phase: texts of documents and classes to vectors (quality recipe, steps 1 and 2); and
// prompts for key terms, for whoever has an LLM.
struct EncodingStage {
  using Outputs = EncodingFiles;
  ClassEncoding classes;
  ScannedCorpus corpus;
  EncoderFiles encoder;
  InferOptions infer;
  ShardOptions shards;
  void run(const StageContext& context, const EncodingFiles& out) const;
};

}  // namespace gpuhpc
