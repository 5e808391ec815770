#include "gpuhpc/pipelines/pretrain/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, NewModelOptions& options) {
  section
      .option("model", options.model,
              "pretrain: small, medium or large for a new model, or the folder of a model that "
              "learns on")
      .common();
}

void declare(config::Section& section, VocabularyOptions& options) {
  section
      .option("vocabulary", options.size,
              "entries of a vocabulary that a new model learns from the texts first; 0: it takes "
              "the tokenizer of --model.encoder")
      .range(0, 1 << 20)
      .common();
  section
      .option("tokenizer", options.tokenizer,
              "what kind of vocabulary is learnt: wordpiece (lower case, for a BERT) or bpe (of "
              "bytes, for a RoBERTa)")
      .one_of({"wordpiece", "bpe"});
}

void declare(config::Section& section, MaskingOptions& options) {
  section
      .option("masked", options.share,
              "share of a text's tokens that have to be found: 8 of 10 are masked, 1 is another "
              "token, 1 stays")
      .range(.001, .9);
  section.option("whole-words", options.whole_words,
                 "all pieces of a word are masked, or none; else each piece by itself");
}

void declare(config::Section& section, ShortPhaseOptions& options) {
  section
      .option("short-length", options.length,
              "tokens of the pieces in a first phase of training, before those of "
              "--train.max-length; 0: there is none")
      .range(0, 1 << 20);
  section
      .option("short-epochs", options.epochs,
              "epochs of that phase; --train.max-steps, where given, is of each phase")
      .range(1, 1000000);
}

void declare(config::Section& section, CorpusWeightOptions& options) {
  section.option("weights", options.weights,
                 "how often an epoch goes through files or folders of --input.dir, as "
                 "wiki=2,logs.txt=.5; the others: once");
}

void declare(config::Section& section, DataPathOptions& options) {
  section
      .option("data-only", options.only,
              "the texts are tokenized, read, packed and masked as a training would have them, and "
              "the tokens per second are said; nothing is trained")
      .execution();
}

std::vector<std::pair<std::string, std::string>> pretrain_defaults() {
  return {{"train.encoder-lr", "1e-4"}, {"train.head-lr", "1e-4"}, {"train.max-length", "128"},
          {"train.layers", "-1"},       {"train.dropout", "auto"}, {"train.micro-batch", "0"},
          {"train.validation", "0.02"}};
}

}  // namespace gpuhpc
