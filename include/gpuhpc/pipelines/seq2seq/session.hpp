#pragma once
// What the stages of `train-seq2seq` share: a T5 with the pairs it learns or is measured on.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpuhpc/nn/t5.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/seq2seq/files.hpp"
#include "gpuhpc/pipelines/seq2seq/task.hpp"

namespace gpuhpc {

struct Seq2SeqLearning {
  Seq2SeqTokenFiles tokens;
  StartModel start;
  Seq2SeqLearningOptions options;
  FineTuning training;
};
// What comes before each source: the model carries it.
struct SourcePrefix {
  std::string text;
  std::vector<std::string> settings() const { return {"seq2seq.prefix = " + text}; }
};

struct Seq2SeqSession {
  // `learning` must outlive it.
  Seq2SeqSession(const Seq2SeqLearning& learning, const std::filesystem::path& folder,
                 const StageContext& context);
  Seq2SeqSession(const Seq2SeqSession&) = delete;
  // What stands around a text; input_error where its end is not the model's.
  const TextTemplate& form() const;

  LoadedT5 loaded;
  std::unique_ptr<Tokenizer> tokenizer;
  Seq2SeqTask task;
  std::vector<std::int64_t> held_out;  // items, ascending
};

}  // namespace gpuhpc
