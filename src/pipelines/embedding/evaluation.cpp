#include "gpuhpc/pipelines/embedding/evaluation.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/pipelines/embedding/evaluator.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

namespace gpuhpc {
namespace {

Matrix leading_columns(const Matrix& vectors, std::int64_t columns) {
  Matrix cut(vectors.rows, columns);
  for (std::int64_t i = 0; i < vectors.rows; ++i)
    std::ranges::copy(vectors.row(i).first(static_cast<std::size_t>(columns)), cut.row(i).begin());
  return cut;
}

// What the evaluation found of one encoder at one width.
struct Result {
  std::string encoder;
  std::int64_t width;
  Figures figures;
};

std::vector<std::string> column_names(const Result& result) {
  std::vector<std::string> names{"encoder", "dimensions"};
  for (const auto& [name, value] : result.figures) names.push_back(name);
  return names;
}

Json metrics_of(const std::vector<Result>& results) {
  Json metrics = Json::object();
  for (const Result& r : results)
    for (const auto& [name, value] : r.figures)
      metrics[r.encoder][std::to_string(r.width)][name] = value;
  return metrics;
}

std::string table_of(const std::vector<Result>& results) {
  std::string table =
      results.empty() ? "" : fmt::format("{}", fmt::join(column_names(results[0]), "\t"));
  for (const Result& r : results) {
    table += fmt::format("\n{}\t{}", r.encoder, r.width);
    for (const auto& [name, value] : r.figures) table += fmt::format("\t{:.4f}", value);
  }
  return table + "\n";
}

Json samples_of(const std::vector<Result>& results) {
  Json rows = Json::array();
  for (const Result& r : results) {
    rows.push_back({r.encoder, r.width});
    for (const auto& [name, value] : r.figures) rows.back().push_back(value);
  }
  if (rows.empty()) return rows;
  return Json::array({{{"title", "Results by dimension"},
                       {"about",
                        "The encoder as it was and as it has become, by the leading dimensions "
                        "that are kept of its vectors."},
                       {"columns", column_names(results[0])},
                       {"rows", rows}}});
}

}  // namespace

void EmbeddingEvaluationStage::run(const StageContext& c, const EvaluationFiles& out) const {
  std::vector<TokenDataset> columns;
  std::vector<float> values;
  Json files;
  Learns learns{};
  run_collectively(c.comm, [&] {
    files = read_json(tokens.rows);
    std::vector<std::filesystem::path> folders{tokens.test};
    for (std::size_t i = 0; std::filesystem::exists(tokens.validation_of(i)); ++i)
      folders.push_back(tokens.validation_of(i));
    for (const auto& folder : folders)
      if (columns.empty() && !(columns = open_datasets(folder)).empty()) {
        values = open_values(folder);
        for (const Json& file : files)
          if (file.at("folder") == tokens.name_of(folder)) learns = file.at("learns").get<Learns>();
      }
  });
  std::vector<Result> results;
  Json metrics = Json::object();
  const Measure measure = measure_of(columns.size(), learns, values, loss.evaluator);
  if (measure != Measure::nothing) {
    const RowEvaluator evaluator(columns, all_rows(columns[0]), values, measure, loss.transitive);
    std::int64_t length = 0;  // of the model before
    for (const auto& [name, folder] :
         {std::pair{"start", encoder.folder.path}, std::pair{"trained", trained.model}}) {
      const TextEncoder model(folder, infer, c.device, c.comm, c.log,
                              // the rows' texts stand behind theirs
                              {encoder.pooling.kind(), ""}, TextEncoder::Length::own);
      if (length > 0 && length != model.max_length() && c.comm.is_root())
        c.log->warn(
            "the encoder as it was reads {} tokens of a text, as it has become {}: a part of what "
            "differs between them is that",
            length, model.max_length());
      length = model.max_length();
      std::vector<Matrix> vectors;
      for (std::size_t i = 0; i < evaluator.texts().size(); ++i)
        vectors.push_back(model.encode(source_of(columns[i], evaluator.texts()[i]), c.comm));
      std::vector<std::int64_t> widths = loss.dimensions();
      std::erase(widths, model.width());
      widths.insert(widths.begin(), model.width());
      for (const std::int64_t width : widths) {
        std::vector<Matrix> cut;
        for (const Matrix& column : vectors) cut.push_back(leading_columns(column, width));
        results.push_back({name, width, evaluator.figures(cut, c.comm)});
      }
    }
    metrics = metrics_of(results);
    if (of_one_set(measure)) {
      metrics["texts"] = evaluator.texts_in_all();
    } else {
      metrics["queries"] = evaluator.texts()[0].places.size();
      metrics["documents"] = evaluator.texts()[1].places.size();
    }
    metrics["rows"] = columns[0].size();
  }
  on_root(c.comm, [&] {
    metrics["files"] = files;
    write_json(out.metrics, metrics);
    write_text_file(out.table, table_of(results));
    write_json(out.samples, samples_of(results));
  });
}

}  // namespace gpuhpc
