#include "gpuhpc/pipelines/embedding/files.hpp"

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

std::vector<std::string> ScannedRows::settings() const {
  std::vector<std::string> lines;
  for (const CorpusScan& column : columns)
    lines.push_back(fmt::format("column {} of {}", column.options.text_field, column.content));
  return lines;
}

std::vector<TokenDataset> open_columns(const fs::path& folder) {
  std::vector<TokenDataset> columns;
  for (std::size_t i = 0; fs::exists(folder / std::to_string(i)); ++i)
    columns.emplace_back(folder / std::to_string(i));
  return columns;
}

PairInputs find_pairs(const PairFileOptions& files, const std::string& format, Communicator& comm) {
  if (files.train.empty())
    throw usage_error("--embedding.train is missing; name the file of rows to learn from");
  const auto scan = [&](const std::string& path) {
    ScannedRows rows;
    if (path.empty()) return rows;
    for (const std::string& name : files.column_names()) {
      CorpusOptions column;
      column.format = format;
      column.text_field = name;
      column.ids_optional = true;
      column.check_duplicates = false;
      rows.columns.push_back(scan_corpus(path, column, comm));
    }
    return rows;
  };
  return {scan(files.train), scan(files.validation), scan(files.test)};
}

}  // namespace gpuhpc
