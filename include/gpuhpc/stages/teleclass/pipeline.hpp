#pragma once
// The six phases of TELEClass in order: encoding, refinement, augmentation, hierarchy, training, inference.
#include <vector>

#include "gpuhpc/comm/options.hpp"
#include "gpuhpc/config/options.hpp"
#include "gpuhpc/data/layout.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/labels/decode_options.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"
#include "gpuhpc/retrieval/tfidf.hpp"
#include "gpuhpc/stages/classify/options.hpp"
#include "gpuhpc/stages/stage.hpp"
#include "gpuhpc/stages/teleclass/options.hpp"
#include "gpuhpc/train/options.hpp"

namespace gpuhpc {

struct TeleclassPipelineOptions {
  InputOptions input;
  ModelOptions model;
  ShardOptions shards;
  InferOptions infer;
  TeleclassOptions teleclass;
  TfidfOptions tfidf;
  NeighbourOptions neighbours;
  TrainOptions train;
  ParallelOptions parallel;
  DecodeOptions decode;
  SubmissionOptions submission;
};

std::vector<Stage> teleclass_stages(const TeleclassPipelineOptions& options, const InputLayout& layout);

// The values that --pipeline.preset puts under the user's own: "section.key" -> value. Throws usage_error for an unknown name.
std::vector<std::pair<std::string, std::string>> teleclass_preset(const std::string& name);

}  // namespace gpuhpc
