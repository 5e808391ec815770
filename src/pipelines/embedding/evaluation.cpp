#include "gpuhpc/pipelines/embedding/evaluation.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/correlation.hpp"
#include "gpuhpc/eval/retrieval.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/pipelines/embedding/distinct_texts.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"

namespace gpuhpc {
namespace {

Matrix leading_columns(const Matrix& vectors, std::int64_t columns) {
  Matrix cut(vectors.rows, columns);
  for (std::int64_t i = 0; i < vectors.rows; ++i) {
    const auto row = cut.row(i);
    std::copy_n(vectors.row(i).data(), columns, row.data());
    normalise(row);
  }
  return cut;
}

// The nearest hundred documents of each query; each rank searches for its share. Collective.
std::vector<std::vector<std::int32_t>> search(const Matrix& queries, const Matrix& documents,
                                              Communicator& comm) {
  NeighbourOptions options;
  options.k = std::min<std::int64_t>(100, documents.rows);
  const Range mine = items_of_rank(queries.rows, neighbour_block, comm.rank(), comm.size());
  const Neighbours own =
      dense_neighbours(queries.view(), documents.view(), mine, QuerySet::other, options);
  const std::vector<std::int32_t> all = comm.all_gather_v(std::span(own.indices));
  std::vector<std::vector<std::int32_t>> found;
  for (std::int64_t i = 0; i < queries.rows; ++i)
    found.emplace_back(all.begin() + i * options.k, all.begin() + (i + 1) * options.k);
  return found;
}

// Which documents stand in a row with each query.
std::vector<std::vector<std::int32_t>> belonging(const Distinct& queries,
                                                 const Distinct& documents) {
  std::vector<std::vector<std::int32_t>> relevant(queries.rows.size());
  for (std::size_t i = 0; i < queries.number.size(); ++i) {
    auto& of_query = relevant[static_cast<std::size_t>(queries.number[i])];
    if (std::ranges::find(of_query, documents.number[i]) == of_query.end())
      of_query.push_back(documents.number[i]);
  }
  return relevant;
}

// How the cosines of the rows follow their scores.
Figures follow_scores(const Matrix& first, const Distinct& of_first, const Matrix& second,
                      const Distinct& of_second, std::span<const float> scores) {
  const std::vector<double> wanted(scores.begin(), scores.end());
  std::vector<double> cosines;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const auto a = first.row(of_first.number[i]), b = second.row(of_second.number[i]);
    cosines.push_back(std::inner_product(a.begin(), a.end(), b.begin(), 0.));
  }
  return {{"pearson_cosine", pearson(cosines, wanted)},
          {"spearman_cosine", spearman(cosines, wanted)}};
}

}  // namespace

void EmbeddingEvaluationStage::run(const StageContext& c, const EvaluationFiles& out) const {
  std::vector<TokenDataset> columns;
  std::vector<float> scores;
  run_collectively(c.comm, [&] {
    for (const auto& folder : {tokens.validation, tokens.test})
      if (std::vector<TokenDataset> found = open_columns(folder); found.size() >= 2)
        columns = std::move(found), scores = open_scores(folder);
  });
  Json metrics = Json::object();
  std::vector<std::string> lines;
  if (!columns.empty()) {
    const Distinct queries = distinct_texts(columns[0]), documents = distinct_texts(columns[1]);
    const auto relevant = belonging(queries, documents);
    for (const auto& [name, folder] :
         {std::pair{"start", encoder.folder.path}, std::pair{"trained", trained.model}}) {
      const TextEncoder model(folder, infer, c.device, c.comm, c.log, encoder.pooling.kind());
      const Matrix asked = model.encode(rows_of(columns[0], queries), c.comm),
                   stored = model.encode(rows_of(columns[1], documents), c.comm);
      std::vector<std::int64_t> widths = loss.dimensions();
      std::erase(widths, model.width());
      widths.insert(widths.begin(), model.width());
      for (const std::int64_t width : widths) {
        const Matrix first = leading_columns(asked, width), second = leading_columns(stored, width);
        const Figures figures = scores.empty()
                                    ? retrieval_figures(search(first, second, c.comm), relevant)
                                    : follow_scores(first, queries, second, documents, scores);
        std::string header = "encoder\tdimensions", line = fmt::format("{}\t{}", name, width);
        for (const auto& [figure, value] : figures) {
          header += "\t" + figure, line += fmt::format("\t{:.4f}", value);
          metrics[name][std::to_string(width)][figure] = value;
        }
        if (lines.empty()) lines.push_back(header);
        lines.push_back(line);
      }
    }
    metrics["queries"] = queries.rows.size();
    metrics["documents"] = documents.rows.size();
    metrics["rows"] = columns[0].size();
  }
  on_root(c.comm, [&] {
    write_json(out.metrics, metrics);
    write_text_file(out.table, fmt::format("{}\n", fmt::join(lines, "\n")));
  });
}

}  // namespace gpuhpc
