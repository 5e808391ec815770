#pragma once
// A T5 with the pairs it learns or is measured on; private to this job.
#include <memory>
#include <vector>

#include "gpuhpc/nn/t5.hpp"
#include "gpuhpc/pipelines/seq2seq/task.hpp"
#include "gpuhpc/pipelines/seq2seq/training.hpp"

namespace gpuhpc {

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
