#pragma once
// The options that every job has; each job adds a struct of its own.
#include <cstdint>
#include <string>

#include "gpuhpc/comm/options.hpp"
#include "gpuhpc/config/options.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/nn/encoder_config.hpp"
#include "gpuhpc/train/loader.hpp"
#include "gpuhpc/train/options.hpp"
#include "gpuhpc/train/profile.hpp"

namespace gpuhpc {

struct InputOptions {
  static constexpr const char* section = "input";
  std::string dir = "data/debtags-topical";
  std::string file = "-";
  std::string labels;  // of a few documents of the training corpus
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

// What is put before texts: a name or a text (nn/prompts.hpp); auto: what the folder says.
struct PromptOption {
  static constexpr const char* section = "model";
  std::string given = Prompts::of_folder;
};
void declare(config::Section& section, PromptOption& option);

// The seed alone, for a stage that reads nothing else of the section.
struct SeedOption {
  static constexpr const char* section = "train";
  std::int64_t value = 42;
};
void declare(config::Section& section, SeedOption& option);

// What every stage that trains is handed.
struct TrainingOptions {
  TrainOptions train;
  ParallelOptions parallel;
  ProfileOptions profile;
  LoaderOptions loader;
};

// [train], beside the Trainer's own: how an encoder learns. Defaults are those of the student
// (quality recipe, step 11).
struct FineTuneOptions {
  static constexpr const char* section = "train";
  double encoder_rate = 3e-5, head_rate = 1e-3;
  std::int64_t max_length = 96;  // tokens per document
  // top encoder layers that learn; 0: the head alone; -1: all, embeddings too
  std::int64_t layers = 3;
  double dropout = 0;  // in the encoder; -1 (auto): as its config.json says
};
void declare(config::Section& section, FineTuneOptions& options);

// What every stage that fine-tunes the encoder is handed.
struct FineTuning {
  FineTuneOptions encoder;
  TrainingOptions trainer;
};

struct SharedOptions {
  InputOptions input;
  CorpusOptions corpus;
  ModelOptions model;
  PoolingOption pooling;
  PromptOption prompt;
  ShardOptions shards;
  InferOptions infer;
  TrainingOptions training;
  FineTuneOptions fine_tune;
  FineTuning fine_tuning() const { return {fine_tune, training}; }
};

}  // namespace gpuhpc
