#pragma once
// `gpuhpc select`: documents that a person should label next.
#include <filesystem>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

// [select]
struct SelectOptions {
  static constexpr const char* section = "select";
  std::int64_t documents = 50;
};
void declare(config::Section& section, SelectOptions& options);

// A CSV with columns id, labels (empty: to be filled in), suggested and text, from a finished
// model and the shards of its training corpus; documents of `labels` (a file, or empty) are known
// already. From a large corpus 4,096 documents are looked at, evenly spread.
std::string documents_to_label(const std::filesystem::path& model,
                               const std::filesystem::path& tokens,
                               const std::filesystem::path& labels, std::int64_t count);

}  // namespace gpuhpc
