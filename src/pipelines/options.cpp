#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, InputOptions& options) {
  section
      .option("dir", options.dir,
              "folder of the texts, and with a taxonomy of its classes: the input of run")
      .existing_path()
      .common();
  section
      .option(
          "labels", options.labels,
          "classes that a person gave some documents of the training corpus (`id<TAB>1,2,3`, or "
          "the CSV of `gpuhpc select`): they correct the model")
      .existing_path()
      .common();
  section.option("file", options.file, "text of prepare, encode and predict; - is standard input")
      .existing_path()
      .common();
}

void declare(config::Section& section, ModelOptions& options) {
  section
      .option("encoder", options.encoder,
              "Hugging Face or sentence-transformers folder of the text encoder")
      .existing_path()
      .common();
  section.option("dir", options.dir, "finished model/ folder of a run, for predict")
      .existing_path()
      .common();
}

void declare(config::Section& section, PoolingOption& option) {
  section
      .option("pooling", option.word,
              "how a document becomes one vector in a folder without modules.json (BERT as it was "
              "pretrained): the mean of its tokens, or the first token, [CLS]")
      .one_of({"mean", "cls"});
}

void declare(config::Section& section, PromptOption& option) {
  section.option("prompt", option.given,
                 "what is put before every text that is encoded: a text, or the name of one of the "
                 "folder's prompts (config_sentence_transformers.json); \"\": nothing; auto: the "
                 "folder's default_prompt_name");
}

void declare(config::Section& section, FineTuneOptions& o) {
  constexpr double many = 1e12;
  section.option("encoder-lr", o.encoder_rate, "peak learning rate of the encoder").range(0, 1);
  section
      .option("head-lr", o.head_rate,
              "peak learning rate of the head (class vectors, bilinear matrix)")
      .range(0, 1);
  section
      .option("max-length", o.max_length,
              "documents are cut here for training, [CLS] and [SEP] included")
      .range(3, many)
      .unit("tokens")
      .common();
  section
      .option("layers", o.layers,
              "top encoder layers that learn (0: the head alone, -1: everything, embeddings too)")
      .range(-1, 1000);
  section
      .option("dropout", o.dropout,
              "dropout in the encoder; auto: the rates in its config.json, which BERT was "
              "pretrained with")
      .range(0, .9)
      .word("auto", -1);
}

void declare(config::Section& section, SeedOption& o) { section.option("seed", o.value, ""); }

}  // namespace gpuhpc
