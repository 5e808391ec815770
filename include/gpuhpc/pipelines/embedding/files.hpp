#pragma once
// What train-embedding reads from outside, and the token shards its stages share.
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/pipelines/embedding/losses.hpp"
#include "gpuhpc/pipelines/embedding/options.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

struct ScannedRows {
  std::optional<CorpusScan> scan;  // none: no such file
  // What the loss learns of each row, one behind the other: a score, several, or the number of its
  // class.
  std::vector<float> values;
  Learns learns{};  // what they are
  std::int64_t rows() const { return scan ? scan->documents() : 0; }
  std::vector<std::string> settings() const;
};

// Of each data set; of `validation` perhaps none.
struct ScannedSets {
  struct One {
    std::string name;  // of the data set
    ScannedRows train, validation;
  };
  std::vector<One> sets;
  std::vector<std::string> settings() const;
};

struct PairInputs {
  ScannedSets learnt;
  ScannedRows test;                   // perhaps none
  std::vector<std::string> warnings;  // rows that are left out; on the root
  std::int64_t rows() const;          // to learn from
  std::int64_t validation_rows() const;
};
// Reads every file whole, once, and throws its first error; `common`: where the test file is.
// Collective.
PairInputs find_pairs(const std::vector<PairDataset>& datasets, const PairFileOptions& common,
                      const std::string& format, Communicator& comm);

struct PairTokenFiles : StageFiles {
  using StageFiles::StageFiles;
  // A folder of shards for each column: 0, 1, ..; in train and validation such a folder for each
  // data set: 0, 1, ..
  std::filesystem::path train = output("train"), validation = output("validation"),
                        test = output("test");
  std::filesystem::path rows = output("rows.json");  // of each file: rows, and those left out
  // Of one data set.
  std::filesystem::path train_of(std::size_t set) const { return train / std::to_string(set); }
  std::filesystem::path validation_of(std::size_t set) const {
    return validation / std::to_string(set);
  }
  // Of such a folder in `rows`.
  std::string name_of(const std::filesystem::path& file) const {
    return file.lexically_relative(folder()).string();
  }
};
// Each column of these rows as token shards, row by row aligned. Collective.
void tokenize_pairs(const ScannedSets& learnt, const ScannedRows& test, const ModelFiles& encoder,
                    const ShardOptions& shards, const StageContext& context,
                    const PairTokenFiles& out);
inline constexpr const char* values_file = "values.h5";  // beside them: "values" of all rows
std::vector<float> open_values(const std::filesystem::path& folder);  // of the rows, if any

struct EvaluationFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path metrics = output("metrics.json");
  std::filesystem::path table = output("evaluation.tsv");
  std::filesystem::path samples = output("samples.json");  // the table, for the report
};

}  // namespace gpuhpc
