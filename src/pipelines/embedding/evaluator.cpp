#include "gpuhpc/pipelines/embedding/evaluator.hpp"

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/eval/correlation.hpp"
#include "gpuhpc/eval/pairs.hpp"
#include "gpuhpc/labels/vectors.hpp"

namespace gpuhpc {
namespace {

Matrix unit_rows_of(Matrix vectors) {
  for (std::int64_t i = 0; i < vectors.rows; ++i) normalise(vectors.row(i));
  return vectors;
}

// The nearest hundred documents of each query. Collective.
std::vector<std::vector<std::int32_t>> search(const Matrix& queries, const Matrix& documents,
                                              Communicator& comm) {
  const std::int64_t k = std::min<std::int64_t>(100, documents.rows);
  const std::vector<std::int32_t> all =
      nearest_texts(queries.view(), documents.view(), {0, queries.rows}, k, comm).indices;
  std::vector<std::vector<std::int32_t>> found;
  for (std::int64_t i = 0; i < queries.rows; ++i)
    found.emplace_back(all.begin() + i * k, all.begin() + (i + 1) * k);
  return found;
}

Matrix of_rows(const Matrix& vectors, const DistinctTexts& texts) {
  Matrix rows(std::ssize(texts.number), vectors.columns);
  for (std::int64_t i = 0; i < rows.rows; ++i)
    std::ranges::copy(vectors.row(texts.number[static_cast<std::size_t>(i)]), rows.row(i).begin());
  return rows;
}

std::size_t compared_columns(Measure measure) {
  return measure == Measure::nothing ? 0 : measure == Measure::triplets ? 3 : 2;
}

}  // namespace

Measure measure_of(std::size_t columns, Learns learns, std::span<const float> values) {
  if (columns < 2 || learns == Learns::classes) return Measure::nothing;
  if (learns != Learns::similarity) return columns == 2 ? Measure::search : Measure::triplets;
  const bool binary = std::ranges::all_of(values, [](float v) { return v == 0 || v == 1; });
  return binary ? Measure::pairs : Measure::scores;
}

std::vector<std::string> figure_names(Measure measure) {
  const std::vector<std::string> search{"mrr_at_10", "ndcg_at_10", "recall_at_1", "recall_at_10",
                                        "map_at_100"};
  switch (measure) {
    case Measure::nothing:
      return {};
    case Measure::search:
      return search;
    case Measure::triplets: {
      std::vector<std::string> names = search;
      names.insert(names.end(), {"cosine_accuracy", "euclidean_accuracy", "manhattan_accuracy"});
      return names;
    }
    case Measure::scores:
      return {"pearson_cosine", "spearman_cosine"};
    case Measure::pairs:
      return {"cosine_accuracy",  "cosine_accuracy_threshold",
              "cosine_f1",        "cosine_f1_threshold",
              "cosine_precision", "cosine_recall",
              "cosine_ap"};
  }
  throw internal_error("measure {} is unknown", static_cast<int>(measure));
}

RowEvaluator::RowEvaluator(const std::vector<TokenDataset>& columns,
                           const std::vector<std::int64_t>& rows, std::vector<float> values,
                           Measure measure)
    : measure_(measure), values_(std::move(values)) {
  for (std::size_t i = 0; i < compared_columns(measure); ++i)
    texts_.push_back(distinct_texts(columns[i], rows));
  if (measure == Measure::search || measure == Measure::triplets)
    relevant_ = belonging(texts_[0], texts_[1]);
}

Figures RowEvaluator::figures(const std::vector<Matrix>& vectors, Communicator& comm) const {
  Figures figures;
  if (measure_ == Measure::nothing) return figures;
  const Matrix first = unit_rows_of(vectors[0]), second = unit_rows_of(vectors[1]);
  if (measure_ == Measure::search || measure_ == Measure::triplets)
    figures = retrieval_figures(search(first, second, comm), relevant_);
  if (measure_ == Measure::triplets) {
    const Figures nearer = triplet_figures(of_rows(vectors[0], texts_[0]).view(),
                                           of_rows(vectors[1], texts_[1]).view(),
                                           of_rows(vectors[2], texts_[2]).view());
    figures.insert(figures.end(), nearer.begin(), nearer.end());
  }
  if (measure_ != Measure::scores && measure_ != Measure::pairs) return figures;
  std::vector<float> cosines;
  for (std::size_t i = 0; i < values_.size(); ++i)
    cosines.push_back(
        static_cast<float>(dot(first.row(texts_[0].number[i]), second.row(texts_[1].number[i]))));
  if (measure_ == Measure::pairs) return pair_figures(cosines, values_);
  const std::vector<double> found(cosines.begin(), cosines.end()),
      wanted(values_.begin(), values_.end());
  return {{"pearson_cosine", pearson(found, wanted)}, {"spearman_cosine", spearman(found, wanted)}};
}

}  // namespace gpuhpc
