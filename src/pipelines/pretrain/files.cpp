#include "gpuhpc/pipelines/pretrain/files.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/config/options.hpp"

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
    inputs.corpora.push_back(path == folder ? folder.filename().string()
                                            : path.lexically_relative(folder).begin()->string());
  }
  return inputs;
}

std::vector<std::string> MixedCorpora::settings() const {
  std::vector<std::string> lines;
  for (const Corpus& corpus : corpora)
    lines.push_back(
        fmt::format("corpus = {} {} {}", corpus.name, corpus.weight, corpus.files.last));
  return lines;
}

MixedCorpora mix_corpora(const PretrainInputs& inputs, const std::string& weights) {
  MixedCorpora mixed;
  if (weights.empty()) return mixed;
  for (std::size_t i = 0; i < inputs.files.size(); ++i) {
    const auto file = static_cast<std::int64_t>(i);
    if (mixed.corpora.empty() || mixed.corpora.back().name != inputs.corpora[i])
      mixed.corpora.push_back({inputs.corpora[i], 1, {file, file}});
    mixed.corpora.back().files.last = file + 1;
  }
  for (const std::string& word : config::split_list(weights)) {
    const std::size_t equals = word.find('=');
    double weight = 0;
    if (equals == word.npos || !config::parse_number(word.substr(equals + 1), weight) ||
        !(weight > 0) || weight > 1000)
      throw usage_error("--pretrain.weights: `{}` is not NAME=WEIGHT with a weight up to 1000",
                        word);
    const auto corpus =
        std::ranges::find(mixed.corpora, word.substr(0, equals), &MixedCorpora::Corpus::name);
    if (corpus == mixed.corpora.end()) {
      std::vector<std::string> names;
      for (const MixedCorpora::Corpus& known : mixed.corpora) names.push_back(known.name);
      throw usage_error(
          "--pretrain.weights: no file or folder of the texts is called {}; there is {}",
          word.substr(0, equals), fmt::join(names, ", "));
    }
    corpus->weight = weight;
  }
  return mixed;
}

}  // namespace gpuhpc
