#include "gpuhpc/pipelines/seq2seq/files.hpp"

#include <fmt/ranges.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"

namespace gpuhpc {

std::vector<std::string> ScannedTextPairs::settings() const {
  if (!scan) return {};
  const RowOptions& columns = *scan->options.rows;
  return {
      fmt::format("{} rows of {}: {} {}", rows(), scan->content, columns.texts, columns.prompts)};
}

Seq2SeqInputs find_text_pairs(const Seq2SeqFileOptions& files, const std::string& format,
                              Communicator& comm) {
  CorpusOptions options;
  options.format = format;
  run_collectively(comm, [&] {
    if (files.train.empty())
      throw usage_error("--seq2seq.train is missing; name the file of pairs to learn from");
    options.rows = RowOptions{.texts = files.column_names(),
                              .prompts = {files.prefix, ""},
                              .skip = files.bad_rows == "skip",
                              .section = "--seq2seq"};
  });
  Seq2SeqInputs inputs;
  for (const auto& [path, most, pairs] :
       {std::tuple(files.train, files.train_limit, &inputs.train),
        std::tuple(files.validation, files.validation_limit, &inputs.validation)}) {
    if (path.empty()) continue;
    options.rows->most = most;
    pairs->scan = scan_corpus(path, options, comm);
    if (std::string warning = pairs->scan->bad_row_warning(); !warning.empty())
      inputs.warnings.push_back(std::move(warning));
  }
  return inputs;
}

}  // namespace gpuhpc
