#include "gpuhpc/pipelines/embedding/files.hpp"

#include <charconv>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/hdf5.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

std::vector<std::string> ScannedRows::settings() const {
  std::vector<std::string> lines;
  for (const CorpusScan& column : columns)
    lines.push_back(fmt::format("column {} of {}", column.options.text_field, column.content));
  if (!scores.empty())
    lines.push_back("scores = " + Fingerprint().add_part(std::as_bytes(std::span(scores))).hex());
  return lines;
}

std::vector<float> open_scores(const fs::path& folder) {
  if (!fs::exists(folder / scores_file)) return {};
  const Hdf5File file(folder / scores_file);
  const auto values = file.dataset<float>("scores");
  return {values.begin(), values.end()};
}

std::vector<TokenDataset> open_columns(const fs::path& folder) {
  std::vector<TokenDataset> columns;
  for (std::size_t i = 0; fs::exists(folder / std::to_string(i)); ++i)
    columns.emplace_back(folder / std::to_string(i));
  return columns;
}

namespace {

// A number in each row. Collective: the root reads.
std::vector<float> read_scores(const fs::path& path, CorpusOptions column, Communicator& comm) {
  column.numbers = true;
  column.text_option = "--embedding.score";
  std::vector<float> scores;
  on_root(comm, [&] {
    CorpusReader reader(path, column);
    for (Document row; reader.next(row);) {
      float score = 0;
      const char* const end = row.text.data() + row.text.size();
      const auto [read, error] = std::from_chars(row.text.data(), end, score);
      if (error != std::errc{} || read != end || !std::isfinite(score))
        throw input_error("{}: `{}` in column `{}` is not a number; give every row a score",
                          reader.where(), row.text, column.text_field);
      scores.push_back(score);
    }
  });
  std::int64_t rows = std::ssize(scores);
  comm.broadcast(&rows, 1, DataType::int64, 0);
  scores.resize(static_cast<std::size_t>(rows));
  comm.broadcast(std::span<float>(scores));
  return scores;
}

}  // namespace

PairInputs find_pairs(const PairFileOptions& files, bool scored, const std::string& format,
                      Communicator& comm) {
  std::vector<std::string> names;
  run_collectively(comm, [&] {
    if (files.train.empty())
      throw usage_error("--embedding.train is missing; name the file of rows to learn from");
    names = files.column_names();
  });
  CorpusOptions column;
  column.format = format;
  column.ids_optional = true;
  column.check_duplicates = false;
  const auto scan = [&](const std::string& path) {
    ScannedRows rows;
    if (path.empty()) return rows;
    for (const std::string& name : names) {
      column.text_field = name, column.text_option = "--embedding.columns";
      rows.columns.push_back(scan_corpus(path, column, comm));
    }
    column.text_field = files.score;
    if (scored) rows.scores = read_scores(path, column, comm);
    return rows;
  };
  return {scan(files.train), scan(files.validation), scan(files.test)};
}

}  // namespace gpuhpc
