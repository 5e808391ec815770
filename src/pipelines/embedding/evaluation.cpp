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
  Json metrics = Json::object();
  std::vector<std::string> lines;
  const Measure measure = measure_of(columns.size(), learns, values);
  if (measure != Measure::nothing) {
    const RowEvaluator evaluator(columns, all_rows(columns[0]), values, measure);
    for (const auto& [name, folder] :
         {std::pair{"start", encoder.folder.path}, std::pair{"trained", trained.model}}) {
      const TextEncoder model(folder, infer, c.device, c.comm, c.log, encoder.pooling.kind(),
                              TextEncoder::Length::own);
      std::vector<Matrix> vectors;
      for (std::size_t i = 0; i < evaluator.texts().size(); ++i)
        vectors.push_back(model.encode(source_of(columns[i], evaluator.texts()[i]), c.comm));
      std::vector<std::int64_t> widths = loss.dimensions();
      std::erase(widths, model.width());
      widths.insert(widths.begin(), model.width());
      for (const std::int64_t width : widths) {
        std::vector<Matrix> cut;
        for (const Matrix& column : vectors) cut.push_back(leading_columns(column, width));
        std::string header = "encoder\tdimensions", line = fmt::format("{}\t{}", name, width);
        for (const auto& [figure, value] : evaluator.figures(cut, c.comm)) {
          header += "\t" + figure, line += fmt::format("\t{:.4f}", value);
          metrics[name][std::to_string(width)][figure] = value;
        }
        if (lines.empty()) lines.push_back(header);
        lines.push_back(line);
      }
    }
    metrics["queries"] = evaluator.texts()[0].places.size();
    metrics["documents"] = evaluator.texts()[1].places.size();
    metrics["rows"] = columns[0].size();
  }
  on_root(c.comm, [&] {
    metrics["files"] = files;
    write_json(out.metrics, metrics);
    write_text_file(out.table, fmt::format("{}\n", fmt::join(lines, "\n")));
  });
}

}  // namespace gpuhpc
