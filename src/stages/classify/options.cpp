#include "gpuhpc/stages/classify/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, InputOptions& options) {
  section.option("dir", options.dir, "folder with the taxonomy and the corpora").existing_path();
  declare(section, options.corpus);
}

void declare(config::Section& section, ModelOptions& options) {
  section.option("encoder", options.encoder, "Hugging Face or sentence-transformers folder of the text encoder").existing_path();
}

}  // namespace gpuhpc
