#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

namespace gpuhpc {

// The first phase: texts of documents and classes to vectors (quality recipe, steps 1 and 2); and
// prompts for key terms, for whoever has an LLM.
struct EncodingStage {
  using Outputs = EncodingFiles;
  TaxonomyFiles taxonomy;
  ClassFiles classes;
  ScannedCorpus corpus;
  EncoderFiles encoder;
  ClassPromptOption class_prompt;
  InferOptions infer;
  ShardOptions shards;
  ClassTextOptions class_texts;
  CentringOptions centring;
  void run(const StageContext& context, const EncodingFiles& out) const;
};
// The vectors (C,H) that `encoder` gives the classes of the stage, unit rows. Collective.
Matrix encode_classes(const EncodingStage& stage, const TextEncoder& encoder, Communicator& comm);

}  // namespace gpuhpc
