#pragma once
// What train-embedding reads from outside, and the token shards its stages share.
#include <string>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/pipelines/embedding/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

// A file of rows, scanned once for each column of texts.
struct ScannedRows {
  std::vector<CorpusScan> columns;  // none: no such file
  std::vector<float> scores;        // of each row, where the loss needs them
  std::int64_t rows() const { return columns.empty() ? 0 : columns.front().documents(); }
  std::vector<std::string> settings() const;
};

struct PairInputs {
  ScannedRows train, validation, test;  // of the last two perhaps none
};
// Reads every file whole and throws its first error. Collective.
PairInputs find_pairs(const PairFileOptions& files, bool scored, const std::string& format,
                      Communicator& comm);

struct PairTokenFiles : StageFiles {
  using StageFiles::StageFiles;
  // A folder of shards for each column: 0, 1, ..
  std::filesystem::path train = output("train"), validation = output("validation"),
                        test = output("test");
};
// The columns of one of these folders; none where there was no such file.
std::vector<TokenDataset> open_columns(const std::filesystem::path& folder);
inline constexpr const char* scores_file = "scores.h5";  // beside them: "scores" (rows)
std::vector<float> open_scores(const std::filesystem::path& folder);  // of the rows, if any

struct EvaluationFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path metrics = output("metrics.json");
  std::filesystem::path table = output("evaluation.tsv");
};

}  // namespace gpuhpc
