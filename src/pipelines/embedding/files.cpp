#include "gpuhpc/pipelines/embedding/files.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/hdf5.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/pipelines/embedding/evaluator.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

std::vector<std::string> ScannedRows::settings() const {
  if (!scan) return {};
  const RowOptions& columns = *scan->options.rows;
  std::vector<std::string> lines{fmt::format("{} rows of {}: {} {} {}", rows(), scan->content,
                                             columns.texts, columns.prompts, Json(learns).dump())};
  if (!values.empty())
    lines.push_back("values = " + Fingerprint().add_part(std::as_bytes(std::span(values))).hex());
  return lines;
}

std::vector<float> open_values(const fs::path& folder) {
  if (!fs::exists(folder / values_file)) return {};
  const Hdf5File file(folder / values_file);
  const auto values = file.dataset<float>("values");
  return {values.begin(), values.end()};
}

std::vector<TokenDataset> open_columns(const fs::path& folder) {
  std::vector<TokenDataset> columns;
  for (std::size_t i = 0; fs::exists(folder / std::to_string(i)); ++i)
    columns.emplace_back(folder / std::to_string(i));
  return columns;
}

namespace {

// The numbers of a field: one, or an array as JSON has it. False: it holds something else.
bool read_numbers(const std::string& field, std::vector<float>& numbers) {
  if (field.starts_with('[')) {
    const Json list = Json::parse(field, nullptr, /*allow_exceptions=*/false);
    for (const Json& value : list) {
      if (!value.is_number()) return false;
      numbers.push_back(value.get<float>());
    }
    return list.is_array();
  }
  return config::parse_number(field, numbers.emplace_back());
}

// What a loss takes of the fields beside a row's texts.
struct Values {
  std::vector<std::string> columns = {};
  std::size_t wanted = 0;  // numbers of each row
  ScoreRange range = {};
  // Instead of numbers names of classes, in order; none yet: any.
  std::optional<std::vector<std::string>> classes = {};

  std::string fault(std::span<const std::string> fields) const {
    if (classes)
      return classes->empty() || std::ranges::binary_search(*classes, fields[0])
                 ? ""
                 : fmt::format("no row of the training file has the class `{}`; its classes are {}",
                               fields[0], fmt::join(*classes, ", "));
    std::vector<float> numbers;
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (!read_numbers(fields[i], numbers))
        return fmt::format("`{}` in column `{}` is not a number; give every row a score", fields[i],
                           columns[i]);
    if (numbers.size() != wanted)
      return fmt::format("{} numbers in `{}` where the loss learns {} of a row", numbers.size(),
                         fmt::join(columns, ","), wanted);
    for (const float number : numbers)
      if (!(number >= range.low && number <= range.high) || !std::isfinite(number))
        return fmt::format(
            "the score {} is outside {} to {}; mend it, or give the range of these "
            "scores with --embedding.score-range",
            number, range.low, range.high);
    return "";
  }
};

constexpr std::size_t most_classes = 1000;

// The numbers of the rows, or of their classes, whose names go into `values` with the first file.
ScannedRows scan_rows(const fs::path& path, CorpusOptions options, Values& values,
                      Communicator& comm) {
  ScannedRows rows;
  std::vector<std::string> names;  // of the class of each row
  const std::size_t texts = options.rows->texts.size();
  if (values.wanted > 0)
    options.rows->fault = [values](std::span<const std::string> fields) {
      return values.fault(fields);
    };
  rows.scan = scan_corpus(path, options, comm, [&](const Document& row) {
    for (std::size_t i = texts; i < row.fields.size(); ++i) {
      if (values.classes)
        names.push_back(row.fields[i]);
      else
        read_numbers(row.fields[i], rows.values);
    }
  });
  on_root(comm, [&] {
    if (!values.classes) return;
    const bool first = values.classes->empty();
    if (first) {
      const std::set<std::string> distinct(names.begin(), names.end());
      values.classes->assign(distinct.begin(), distinct.end());
      if (distinct.size() < 2 || distinct.size() > most_classes)
        throw input_error(
            "{}: {} classes in the column `{}`, where 2 to {} can be learnt; name the column of "
            "classes with --embedding.score",
            path.string(), distinct.size(), values.columns[0], most_classes);
    }
    for (const std::string& name : names)
      rows.values.push_back(static_cast<float>(std::ranges::lower_bound(*values.classes, name) -
                                               values.classes->begin()));
  });
  rows.values = comm.all_gather_v(std::span<const float>(rows.values));  // the root's
  if (values.classes)
    *values.classes = Json::parse(comm.broadcast_string(Json(*values.classes).dump()));
  return rows;
}

// The test file has columns of its own, and no scores or those of nearness.
void of_test_file(const PairFileOptions& files, RowOptions& rows, Values& values, Learns& learns) {
  rows.texts = files.test_column_names();
  rows.prompts = files.prompts_of(rows.texts);
  rows.fault = {};
  values = {};
  learns = Learns::nothing;
  if (!files.test_score.empty()) {
    values = {.columns = {files.test_score}, .wanted = 1};
    learns = Learns::similarity;
  }
  rows.values = values.columns;
}

}  // namespace

PairInputs find_pairs(const PairFileOptions& files, const PairLossOptions& loss,
                      const std::string& format, Communicator& comm) {
  CorpusOptions options;
  Values values;
  Learns learns{};
  options.format = format;
  run_collectively(comm, [&] {
    if (files.train.empty())
      throw usage_error("--embedding.train is missing; name the file of rows to learn from");
    RowOptions rows{.texts = files.column_names(), .section = "--embedding"};
    rows.prompts = files.prompts_of(rows.texts);
    rows.skip = files.bad_rows == "skip";
    const EmbeddingLoss& learnt = embedding_loss(loss.loss);
    learns = learnt.learns;
    values.wanted = learnt.values(rows.texts.size());
    if (values.wanted > 0) rows.values = values.columns = config::split_list(files.score);
    values.range = files.range(learnt.scores);
    if (learnt.learns == Learns::classes) {
      values.classes.emplace();
      if (values.columns.size() != 1)
        throw usage_error("--embedding.score {}: the class of a row is one column", files.score);
    }
    options.rows = std::move(rows);
  });
  PairInputs inputs;
  for (const auto& [path, most, rows] :
       {std::tuple(files.train, files.train_limit, &inputs.train),
        std::tuple(files.validation, files.validation_limit, &inputs.validation),
        std::tuple(files.test, files.test_limit, &inputs.test)}) {
    if (path.empty()) continue;
    if (rows == &inputs.test && !(files.test_columns.empty() && files.test_score.empty()))
      run_collectively(comm, [&] { of_test_file(files, *options.rows, values, learns); });
    options.rows->most = most;
    *rows = scan_rows(path, options, values, comm);
    rows->learns = learns;
    if (const BadRows& bad = rows->scan->bad_rows; bad.count > 0)
      inputs.warnings.push_back(fmt::format("{}: {} bad rows are left out, {} stay. {}", path,
                                            bad.count, rows->rows(), fmt::join(bad.first, ". ")));
  }
  if (inputs.test.scan && measure_of(inputs.test.scan->options.rows->texts.size(),
                                     inputs.test.learns, inputs.test.values) == Measure::nothing)
    inputs.warnings.push_back(
        fmt::format("{}: nothing can be measured on one text a row, or on classes; name two texts, "
                    "and their score, with --embedding.test-columns and --embedding.test-score",
                    files.test));
  return inputs;
}

}  // namespace gpuhpc
