#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, InputOptions& options) {
  section
      .option("dir", options.dir,
              "folder of the texts, and with a taxonomy of its classes: the input of run")
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

}  // namespace gpuhpc
