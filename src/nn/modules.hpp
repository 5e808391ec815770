#pragma once
// What sentence-transformers puts around an encoder: modules.json and the folders it names, in and
// out; private to room nn.
#include <gpuhpc/nn/encoder_config.hpp>

#include <filesystem>
#include <vector>

namespace gpuhpc {

struct Modules {
  std::filesystem::path transformer, pooling;  // folders; pooling empty: none named
  // Folder and place of each Dense; the rest of them is in its config.json.
  std::vector<DenseConfig> dense;
  bool normalise = false;  // at the end
};

// modules.json of a folder. input_error for a module, or an order of modules, that is not
// supported.
Modules read_modules(const std::filesystem::path& folder);
// What they make of token vectors of `hidden` columns: pooling, Dense modules, unit length.
EmbeddingConfig read_embedding(const Modules& modules, const std::filesystem::path& folder,
                               std::int64_t hidden);

// The files for a folder that has none, or whose settings were changed; no weights.
void write_modules(const std::filesystem::path& folder, const EmbeddingConfig& embedding,
                   std::int64_t hidden);

}  // namespace gpuhpc
