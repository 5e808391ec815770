#pragma once
// What `train-seq2seq` adds to the shared options.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/infer/generate_options.hpp"

namespace gpuhpc {

// [seq2seq]: the files of pairs, and their two columns.
struct Seq2SeqFileOptions {
  static constexpr const char* section = "seq2seq";
  std::string train, validation;
  std::string columns = "source,target";
  std::string prefix = "summarize: ";  // put before each source
  std::string bad_rows = "fatal";
  std::int64_t train_limit = 0, validation_limit = 0;  // first rows; 0: all
  std::vector<std::string> column_names() const;       // two; usage_error otherwise
};
struct NewT5Options {
  static constexpr const char* section = "seq2seq";
  // small, base: new weights and the tokenizer of --model.encoder; else a folder that learns on
  std::string model = "small";
  bool is_size() const { return model == "small" || model == "base"; }
};
struct Seq2SeqLearningOptions {
  static constexpr const char* section = "seq2seq";
  std::int64_t source_length = 512, target_length = 64;  // tokens, the end's included
  double label_smoothing = 0;
};
struct Seq2SeqEvaluationOptions {
  static constexpr const char* section = "seq2seq";
  std::int64_t rouge_rows = 500;  // held-out rows that are generated; 0: none
};
void declare(config::Section& section, Seq2SeqFileOptions& options);
void declare(config::Section& section, NewT5Options& options);
void declare(config::Section& section, Seq2SeqLearningOptions& options);
void declare(config::Section& section, Seq2SeqEvaluationOptions& options);

struct Seq2SeqOptions {
  Seq2SeqFileOptions files;
  NewT5Options model;
  Seq2SeqLearningOptions learning;
  Seq2SeqEvaluationOptions evaluation;
  GenerateOptions generation;
};

// What `train-seq2seq` takes for shared options that the user did not give.
std::vector<std::pair<std::string, std::string>> seq2seq_defaults();

}  // namespace gpuhpc
