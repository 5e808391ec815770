#pragma once
// Sections that both classification methods share.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/layout.hpp"

namespace gpuhpc {

// [input]
struct InputOptions {
  std::string dir = "data/debtags-topical";
  CorpusOptions corpus;
};
void declare(config::Section& section, InputOptions& options);

// [model]
struct ModelOptions {
  std::string encoder = ".deps/models/all-MiniLM-L6-v2";
};
void declare(config::Section& section, ModelOptions& options);

}  // namespace gpuhpc
