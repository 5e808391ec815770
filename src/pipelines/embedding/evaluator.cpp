#include "gpuhpc/pipelines/embedding/evaluator.hpp"

#include <algorithm>
#include <map>

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

Measure measure_of(std::size_t columns, Learns learns, std::span<const float> values,
                   const std::string& evaluator) {
  if (columns < 2 || learns == Learns::classes) return Measure::nothing;
  const bool mined = evaluator == "paraphrases";
  if (learns != Learns::similarity)
    return mined ? Measure::paraphrases : columns == 2 ? Measure::search : Measure::triplets;
  const bool binary = std::ranges::all_of(values, [](float v) { return v == 0 || v == 1; });
  return !binary ? Measure::scores : mined ? Measure::labelled_paraphrases : Measure::pairs;
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
    case Measure::paraphrases:
    case Measure::labelled_paraphrases:
      return {"average_precision", "f1", "precision", "recall", "threshold"};
  }
  throw internal_error("measure {} is unknown", static_cast<int>(measure));
}

RowEvaluator::RowEvaluator(const std::vector<TokenDataset>& columns,
                           const std::vector<std::int64_t>& rows, std::vector<float> values,
                           Measure measure, bool transitive)
    : measure_(measure), values_(std::move(values)) {
  for (std::size_t i = 0; i < compared_columns(measure); ++i)
    texts_.push_back(distinct_texts(columns[i], rows));
  if (measure == Measure::search || measure == Measure::triplets)
    relevant_ = belonging(texts_[0], texts_[1]);
  if (of_one_set(measure)) find_duplicates(columns, rows, transitive);
}

// The set: the texts of column 0, then those that column 1 alone has.
void RowEvaluator::find_duplicates(const std::vector<TokenDataset>& columns,
                                   const std::vector<std::int64_t>& rows, bool transitive) {
  std::map<std::string_view, std::int32_t> numbers;
  const auto number = [&](std::size_t column, std::int64_t place) {
    const std::string_view text = columns[column].text(rows[static_cast<std::size_t>(place)]);
    return numbers.emplace(text, static_cast<std::int32_t>(numbers.size())).first->second;
  };
  for (const std::int64_t place : texts_[0].places) number(0, place);
  for (const std::int64_t place : texts_[1].places) second_.push_back(number(1, place));
  texts_in_all_ = std::ssize(numbers);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int32_t first = texts_[0].number[i],
                       second = second_[static_cast<std::size_t>(texts_[1].number[i])];
    const bool duplicates = measure_ == Measure::paraphrases || values_[i] == 1;
    if (first != second && duplicates) duplicates_.insert(std::minmax(first, second));
  }
  if (transitive) duplicates_ = transitive_closure(duplicates_);
}

Figures RowEvaluator::paraphrases(const std::vector<Matrix>& vectors, Communicator& comm) const {
  constexpr std::int64_t each = 100, most = 500'000;  // as sentence-transformers has them
  Matrix all(texts_in_all_, vectors[0].columns);
  for (std::int64_t i = 0; i < vectors[0].rows; ++i)
    std::ranges::copy(vectors[0].row(i), all.row(i).begin());
  for (std::int64_t i = 0; i < vectors[1].rows; ++i)
    std::ranges::copy(vectors[1].row(i), all.row(second_[static_cast<std::size_t>(i)]).begin());
  const Matrix units = unit_rows_of(std::move(all));
  return paraphrase_figures(nearest_pairs(units.view(), each, most, comm), duplicates_);
}

Figures RowEvaluator::figures(const std::vector<Matrix>& vectors, Communicator& comm) const {
  Figures figures;
  if (measure_ == Measure::nothing) return figures;
  if (of_one_set(measure_)) return paraphrases(vectors, comm);
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
