#include "gpuhpc/pipelines/seq2seq/options.hpp"

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

std::vector<std::string> Seq2SeqFileOptions::column_names() const {
  std::vector<std::string> names = config::split_list(columns);
  if (names.size() != 2 || names[0].empty() || names[1].empty() || names[0] == names[1])
    throw usage_error("--seq2seq.columns {}: write two names, as in source,target", columns);
  return names;
}

void declare(config::Section& section, Seq2SeqFileOptions& options) {
  section
      .option("train", options.train,
              "train-seq2seq: JSONL, CSV or TSV file of pairs to learn from, also .gz")
      .existing_path();
  section
      .option("validation", options.validation,
              "pairs whose loss is watched while training, and that are generated at its end; "
              "none: --train.validation")
      .existing_path();
  section.option("columns", options.columns, "the columns of sources and targets");
  section.option("prefix", options.prefix,
                 "put before each source; generate takes the model's own unless this is given");
  section
      .option("bad-rows", options.bad_rows,
              "pairs without one of the columns or with a blank text: fatal; skip: they are left "
              "out, counted, and the first few named")
      .one_of({"fatal", "skip"});
  section.option("train-limit", options.train_limit, "rows of the training file; 0: all")
      .range(0, 1e12);
  section
      .option("validation-limit", options.validation_limit, "rows of the validation file; 0: all")
      .range(0, 1e12);
}

void declare(config::Section& section, NewT5Options& options) {
  section
      .option("model", options.model,
              "train-seq2seq: small or base for a new T5 with the tokenizer of --model.encoder, or "
              "the folder of a T5 or mT5 that learns on")
      .common();
}

void declare(config::Section& section, Seq2SeqLearningOptions& options) {
  section
      .option("source-length", options.source_length,
              "sources are cut here, prefix and end included; of generate too")
      .range(2, 1 << 20)
      .unit("tokens");
  section
      .option("target-length", options.target_length,
              "targets are cut here for training, end included")
      .range(2, 1 << 20)
      .unit("tokens");
  section
      .option("label-smoothing", options.label_smoothing,
              "share of a target's probability that goes to all words alike, in training")
      .range(0, .9);
}

void declare(config::Section& section, Seq2SeqEvaluationOptions& options) {
  section
      .option("rouge-rows", options.rouge_rows,
              "held-out rows that the trained model generates and ROUGE measures; 0: none")
      .range(0, 1e12)
      .unit("rows");
}

std::vector<std::pair<std::string, std::string>> seq2seq_defaults() {
  return {{"train.encoder-lr", "3e-4"},
          {"train.layers", "-1"},
          {"train.dropout", "auto"},
          {"train.micro-batch", "0"}};
}

}  // namespace gpuhpc
