#include "gpuhpc/pipelines/pretrain/files.hpp"

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

std::vector<fs::path> files_of(const fs::path& folder) {
  if (!fs::is_directory(folder)) return {folder};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && !entry.path().filename().string().starts_with("."))
      files.push_back(entry.path());
  std::ranges::sort(files);
  if (files.empty())
    throw input_error("{}: there is no file in it; put texts there (.txt, .jsonl, .csv, .tsv, .gz)",
                      folder.string());
  return files;
}

bool holds_lines(const fs::path& file) {
  const fs::path name = file.extension() == ".gz" ? file.stem() : file.filename();
  return name.extension() == ".txt" || name.extension().empty();
}

}  // namespace

std::int64_t PretrainInputs::documents() const {
  std::int64_t sum = 0;
  for (const CorpusScan& file : files) sum += file.documents();
  return sum;
}

std::vector<std::string> PretrainInputs::settings() const {
  std::vector<std::string> lines;
  for (const CorpusScan& file : files) {
    for (const std::string& line : config::settings_of(file.options)) lines.push_back(line);
    lines.push_back("texts = " + file.content);
  }
  return lines;
}

PretrainInputs find_texts(const fs::path& folder, const CorpusOptions& format, Communicator& comm) {
  std::vector<fs::path> paths;
  run_collectively(comm, [&] { paths = files_of(folder); });
  PretrainInputs inputs;
  for (const fs::path& path : paths) {
    CorpusOptions options = format;
    if (options.format == "auto" && holds_lines(path)) options.format = "lines";
    options.ids_optional = true;
    options.check_duplicates = false;
    inputs.files.push_back(scan_corpus(path, options, comm));
  }
  return inputs;
}

std::vector<TokenDataset> open_texts(const fs::path& tokens) {
  std::vector<TokenDataset> files;
  for (std::size_t i = 0; fs::exists(tokens / std::to_string(i)); ++i)
    files.emplace_back(tokens / std::to_string(i));
  return files;
}

}  // namespace gpuhpc
