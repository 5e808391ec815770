#include "gpuhpc/stages/classify/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, InputOptions& options) {
  section.option("dir", options.dir, "folder with the taxonomy and the corpora").existing_path();
  declare(section, options.corpus);
}

void declare(config::Section& section, ModelOptions& options) {
  section.option("encoder", options.encoder, "Hugging Face or sentence-transformers folder of the text encoder").existing_path();
  section.option("max-length", options.max_length, "tokens a document, [CLS] and [SEP] included; 0: as the encoder's folder says").range(0, 1e6).unit("tokens");
  section.option("long-documents", options.long_documents, "documents above that length are cut, or their windows averaged").one_of({"truncate", "mean"});
}

}  // namespace gpuhpc
