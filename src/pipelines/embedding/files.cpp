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

std::vector<std::string> ScannedSets::settings() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < sets.size(); ++i)
    for (const auto& [part, rows] :
         {std::pair{"train", &sets[i].train}, {"validation", &sets[i].validation}})
      for (const std::string& line : rows->settings())
        lines.push_back(fmt::format("{} {} {}: {}", part, i, sets[i].name, line));
  return lines;
}

std::int64_t PairInputs::rows() const {
  std::int64_t sum = 0;
  for (const ScannedSets::One& set : learnt.sets) sum += set.train.rows();
  return sum;
}

std::int64_t PairInputs::validation_rows() const {
  std::int64_t sum = 0;
  for (const ScannedSets::One& set : learnt.sets) sum += set.validation.rows();
  return sum;
}

std::vector<float> open_values(const fs::path& folder) {
  if (!fs::exists(folder / values_file)) return {};
  const Hdf5File file(folder / values_file);
  const auto values = file.dataset<float>("values");
  return {values.begin(), values.end()};
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
  std::string given_in = PairFileOptions::section;

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
            "scores with --{}.score-range",
            number, range.low, range.high, given_in);
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
            "classes with --{}.score",
            path.string(), distinct.size(), values.columns[0], most_classes, values.given_in);
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

// What the files of a data set are read for.
struct RowsWanted {
  CorpusOptions options;
  Values values;
  Learns learns{};
};

RowsWanted rows_of(const PairDataset& set, const std::string& format) {
  const PairFileOptions& files = set.files;
  RowsWanted wanted;
  RowOptions rows{.texts = files.column_names(), .section = "--" + files.given_in};
  rows.prompts = files.prompts_of(rows.texts);
  rows.skip = files.bad_rows == "skip";
  const EmbeddingLoss& loss = embedding_loss(set.loss.loss);
  Values& values = wanted.values;
  wanted.learns = loss.learns;
  values.given_in = files.given_in;
  values.wanted = loss.values(rows.texts.size());
  if (values.wanted > 0) rows.values = values.columns = config::split_list(files.score);
  values.range = files.range(loss.scores);
  if (loss.learns == Learns::classes) {
    values.classes.emplace();
    if (values.columns.size() != 1)
      throw usage_error("--{}.score {}: the class of a row is one column", files.given_in,
                        files.score);
  }
  wanted.options.format = format;
  wanted.options.rows = std::move(rows);
  return wanted;
}

// The test file has columns of its own, and no scores or those of nearness.
RowsWanted test_rows(const PairFileOptions& files, const std::string& format) {
  RowsWanted wanted;
  RowOptions rows{.texts = files.test_column_names(), .section = "--embedding"};
  rows.prompts = files.prompts_of(rows.texts);
  rows.skip = files.bad_rows == "skip";
  if (!files.test_score.empty()) {
    wanted.values = {.columns = {files.test_score}, .wanted = 1};
    wanted.learns = Learns::similarity;
  }
  rows.values = wanted.values.columns;
  wanted.options.format = format;
  wanted.options.rows = std::move(rows);
  return wanted;
}

}  // namespace

PairInputs find_pairs(const std::vector<PairDataset>& datasets, const PairFileOptions& common,
                      const std::string& format, Communicator& comm) {
  PairInputs inputs;
  const auto scan = [&](const std::string& path, std::int64_t most, RowsWanted& wanted) {
    if (path.empty()) return ScannedRows{};
    wanted.options.rows->most = most;
    ScannedRows rows = scan_rows(path, wanted.options, wanted.values, comm);
    rows.learns = wanted.learns;
    if (std::string warning = rows.scan->bad_row_warning(); !warning.empty())
      inputs.warnings.push_back(std::move(warning));
    return rows;
  };
  RowsWanted wanted;
  for (const PairDataset& set : datasets) {
    run_collectively(comm, [&] { wanted = rows_of(set, format); });
    ScannedRows train = scan(set.files.train, set.files.train_limit, wanted);
    inputs.learnt.sets.push_back({set.name, std::move(train),
                                  scan(set.files.validation, set.files.validation_limit, wanted)});
  }
  // That of one data set is read as its other files where nothing else is said.
  if (datasets.size() > 1 || !common.test_columns.empty() || !common.test_score.empty())
    run_collectively(comm, [&] { wanted = test_rows(common, format); });
  inputs.test = scan(common.test, common.test_limit, wanted);
  if (inputs.test.scan && inputs.test.learns == Learns::nothing && datasets.size() == 1 &&
      embedding_loss(datasets[0].loss.loss).learns == Learns::similarity)
    inputs.warnings.push_back(fmt::format(
        "{}: each of its pairs counts as one that belongs together; name the column that "
        "says how near they are with --embedding.test-score",
        common.test));
  if (inputs.test.scan &&
      measure_of(inputs.test.scan->options.rows->texts.size(), inputs.test.learns,
                 inputs.test.values, "auto") == Measure::nothing)
    inputs.warnings.push_back(
        fmt::format("{}: nothing can be measured on one text a row, or on classes; name two texts, "
                    "and their score, with --embedding.test-columns and --embedding.test-score",
                    common.test));
  return inputs;
}

}  // namespace gpuhpc
