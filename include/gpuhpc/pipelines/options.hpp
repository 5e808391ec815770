#pragma once
// The options that every job has; each job adds a struct of its own.
#include <string>

#include "gpuhpc/comm/options.hpp"
#include "gpuhpc/config/options.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/nn/encoder_config.hpp"
#include "gpuhpc/train/options.hpp"
#include "gpuhpc/train/profile.hpp"

namespace gpuhpc {

struct InputOptions {
  static constexpr const char* section = "input";
  std::string dir = "data/debtags-topical";
  std::string file = "-";
};
void declare(config::Section& section, InputOptions& options);

struct ModelOptions {
  static constexpr const char* section = "model";
  std::string encoder = ".deps/models/all-MiniLM-L6-v2";
  std::string dir;
};
void declare(config::Section& section, ModelOptions& options);

// How a document becomes one vector where the encoder's folder does not say.
struct PoolingOption {
  static constexpr const char* section = "model";
  std::string word = "mean";
  Pooling kind() const { return parse_pooling(word); }
};
void declare(config::Section& section, PoolingOption& option);

// What every stage that trains is handed.
struct TrainingOptions {
  TrainOptions train;
  ParallelOptions parallel;
  ProfileOptions profile;
};

struct SharedOptions {
  InputOptions input;
  CorpusOptions corpus;
  ModelOptions model;
  PoolingOption pooling;
  ShardOptions shards;
  InferOptions infer;
  TrainingOptions training;
};

}  // namespace gpuhpc
