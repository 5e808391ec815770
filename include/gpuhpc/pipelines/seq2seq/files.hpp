#pragma once
// What `train-seq2seq` reads from outside, and what its stages leave for each other.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/pipelines/seq2seq/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

struct ScannedTextPairs {
  std::optional<CorpusScan> scan;  // none: no such file
  std::int64_t rows() const { return scan ? scan->documents() : 0; }
  std::vector<std::string> settings() const;
};
struct Seq2SeqInputs {
  ScannedTextPairs train, validation;
  std::vector<std::string> warnings;  // rows that are left out; on the root
};
// Reads both files whole, once, and throws the first error. Collective.
Seq2SeqInputs find_text_pairs(const Seq2SeqFileOptions& files, const std::string& format,
                              Communicator& comm);

struct Seq2SeqTokenFiles : StageFiles {
  using StageFiles::StageFiles;
  // A folder of shards for the sources (0) and for the targets (1).
  std::filesystem::path train = output("train"), validation = output("validation");
};

}  // namespace gpuhpc
