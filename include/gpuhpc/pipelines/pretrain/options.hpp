#pragma once
// What `pretrain` adds to the shared options.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

struct NewModelOptions {
  static constexpr const char* section = "pretrain";
  // small, medium, large: new weights; else a folder whose pretraining goes on
  std::string model = "small";
  bool is_size() const { return model == "small" || model == "medium" || model == "large"; }
};
struct VocabularyOptions {
  static constexpr const char* section = "pretrain";
  std::int64_t size = 0;                // entries; 0: the tokenizer of --model.encoder is taken
  std::string tokenizer = "wordpiece";  // or bpe: with it a new model is a RoBERTa
};
struct MaskingOptions {  // Devlin et al. 2019, section 3.1
  static constexpr const char* section = "pretrain";
  double share = .15;  // of a text's tokens; at least one
  bool whole_words = false;
};
// Training on short pieces first, which cost less (Devlin et al. 2019, appendix A.2: nine of ten
// steps with 128 tokens, then 512).
struct ShortPhaseOptions {
  static constexpr const char* section = "pretrain";
  std::int64_t length = 0, epochs = 1;  // length 0: no such phase
};
// How often an epoch goes through each corpus.
struct CorpusWeightOptions {
  static constexpr const char* section = "pretrain";
  std::string weights;  // NAME=WEIGHT,..
};
// The data path without a training.
struct DataPathOptions {
  static constexpr const char* section = "pretrain";
  bool only = false;
};
void declare(config::Section& section, NewModelOptions& options);
void declare(config::Section& section, VocabularyOptions& options);
void declare(config::Section& section, MaskingOptions& options);
void declare(config::Section& section, ShortPhaseOptions& options);
void declare(config::Section& section, CorpusWeightOptions& options);
void declare(config::Section& section, DataPathOptions& options);

struct PretrainOptions {
  NewModelOptions model;
  VocabularyOptions vocabulary;
  MaskingOptions masking;
  ShortPhaseOptions short_phase;
  CorpusWeightOptions mixing;
  DataPathOptions data;
};

// What `pretrain` takes for shared options that the user did not give.
std::vector<std::pair<std::string, std::string>> pretrain_defaults();

}  // namespace gpuhpc
