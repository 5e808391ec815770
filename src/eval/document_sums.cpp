#include "document_sums.hpp"

#include <algorithm>

namespace gpuhpc::detail {
namespace {

using ClassSet = std::vector<std::int32_t>;

// Fixed columns; two a level follow (correct, gold + predicted).
enum Column : std::size_t {
  one,
  example_f1,
  example_precision,
  example_recall,
  correct,
  gold,
  predicted,
  gold_and_predicted,
  exact,
  wrong,
  all_pairs,
  h_correct,
  h_gold,
  h_predicted,
  h_gold_and_predicted,
  at_1,
  at_3,
  at_3_plain,
  reciprocal_filtered,
  reciprocal_raw,
  top_5,
  fixed_columns
};

std::int64_t common(const ClassSet& a, const ClassSet& b) {
  std::int64_t count = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i < *j) {
      ++i;
    } else if (*j < *i) {
      ++j;
    } else {
      ++count, ++i, ++j;
    }
  }
  return count;
}

void add_sets(double* row, const ClassSet& t, const ClassSet& p, std::int64_t class_count) {
  const auto both = static_cast<double>(common(t, p));
  const auto nt = static_cast<double>(t.size()), np = static_cast<double>(p.size());
  row[one] = 1;
  row[example_f1] = 2 * both / (nt + np);
  row[example_precision] = p.empty() ? 0 : both / np;
  row[example_recall] = both / nt;
  row[correct] = both;
  row[gold] = nt;
  row[predicted] = np;
  row[gold_and_predicted] = nt + np;
  row[exact] = t == p ? 1 : 0;
  row[wrong] = nt + np - 2 * both;
  row[all_pairs] = static_cast<double>(class_count);
}

void add_hierarchical(double* row, const ClassSet& t, const ClassSet& p) {
  row[h_correct] = static_cast<double>(common(t, p));
  row[h_gold] = static_cast<double>(t.size());
  row[h_predicted] = static_cast<double>(p.size());
  row[h_gold_and_predicted] = row[h_gold] + row[h_predicted];
}

void add_levels(double* row, const ClassSet& t, const ClassSet& p, const Levels& levels) {
  double* const level = row + fixed_columns;
  for (const std::int32_t c : t) ++level[2 * (levels.of_class[c] - 1) + 1];
  for (const std::int32_t c : p) {
    ++level[2 * (levels.of_class[c] - 1) + 1];
    if (std::binary_search(t.begin(), t.end(), c)) ++level[2 * (levels.of_class[c] - 1)];
  }
}

void add_best(double* row, const ClassSet& t, const std::vector<ClassScore>& scores) {
  std::int64_t hits = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(5, scores.size()); ++i) {
    hits += std::binary_search(t.begin(), t.end(), scores[i].class_id);
    if (i == 0) row[at_1] = static_cast<double>(hits);
    if (i < 3) {
      row[at_3] =
          static_cast<double>(hits) / static_cast<double>(std::min<std::size_t>(3, t.size()));
      row[at_3_plain] = static_cast<double>(hits) / 3;
    }
  }
  row[top_5] = hits > 0 ? 1 : 0;
}

// Ranks of the gold classes. `scores` is sorted; a gold class that has no score ranks behind
// everything that could beat it.
void add_ranks(double* row, const ClassSet& t, const std::vector<ClassScore>& scores,
               std::int64_t class_count) {
  double filtered = 0, raw = 0;
  std::size_t seen = 0;      // gold classes found among the scored ones
  std::int64_t outside = 0;  // classes outside T up to and including this score
  for (std::size_t first = 0; first < scores.size();) {
    std::size_t last = first;
    std::int64_t inside = 0;
    for (; last < scores.size() && scores[last].score == scores[first].score; ++last) {
      if (!std::binary_search(t.begin(), t.end(), scores[last].class_id)) continue;
      ++inside;
      raw += 1.0 / static_cast<double>(last + 1);
    }
    outside += static_cast<std::int64_t>(last - first) - inside;
    filtered += static_cast<double>(inside) / static_cast<double>(1 + outside);
    seen += static_cast<std::size_t>(inside);
    first = last;
  }
  if (seen < t.size()) {
    ClassSet scored;
    for (const ClassScore& s : scores) scored.push_back(s.class_id);
    std::sort(scored.begin(), scored.end());
    for (const std::int32_t c : t) {
      const auto place = std::lower_bound(scored.begin(), scored.end(), c);
      if (place != scored.end() && *place == c) continue;
      filtered += 1.0 / static_cast<double>(1 + class_count - static_cast<std::int64_t>(t.size()));
      raw += 1.0 / static_cast<double>(static_cast<std::int64_t>(scores.size()) + c -
                                       (place - scored.begin()) + 1);
    }
  }
  row[reciprocal_filtered] = filtered;
  row[reciprocal_raw] = raw / static_cast<double>(t.size());
}

std::vector<Ratio> make_ratios(bool ranking, std::int32_t level_count) {
  std::vector<Ratio> ratios = {{"example_f1", example_f1, one},
                               {"example_precision", example_precision, one},
                               {"example_recall", example_recall, one},
                               {"micro_f1", correct, gold_and_predicted, 2},
                               {"micro_precision", correct, predicted},
                               {"micro_recall", correct, gold},
                               {"exact_match", exact, one},
                               {"hamming_loss", wrong, all_pairs},
                               {"hierarchical_f1", h_correct, h_gold_and_predicted, 2},
                               {"hierarchical_precision", h_correct, h_predicted},
                               {"hierarchical_recall", h_correct, h_gold}};
  for (std::int32_t level = 0; level < level_count; ++level) {
    const std::size_t column = fixed_columns + 2 * static_cast<std::size_t>(level);
    ratios.push_back({"level_" + std::to_string(level + 1) + "_f1", column, column + 1, 2});
  }
  if (ranking) {
    ratios.push_back({"precision_at_1", at_1, one});
    ratios.push_back({"precision_at_3", at_3, one});
    ratios.push_back({"precision_at_3_plain", at_3_plain, one});
    ratios.push_back({"mrr_filtered", reciprocal_filtered, gold});
    ratios.push_back({"mrr_raw", reciprocal_raw, one});
    ratios.push_back({"top5_accuracy", top_5, one});
  }
  return ratios;
}

}  // namespace

const std::vector<std::string>& ranking_names() {
  static const std::vector<std::string> names = {
      "precision_at_1", "precision_at_3", "precision_at_3_plain",
      "mrr_filtered",   "mrr_raw",        "top5_accuracy"};
  return names;
}

DocumentSums sum_documents(const Taxonomy& taxonomy, const LabelledDocuments& documents,
                           const Levels& levels) {
  DocumentSums sums;
  sums.ranking = documents.has_scores();
  sums.columns = fixed_columns + 2 * static_cast<std::size_t>(levels.count);
  sums.ratios = make_ratios(sums.ranking, levels.count);
  sums.values.assign(static_cast<std::size_t>(documents.size()) * sums.columns, 0);
  for (std::size_t d = 0; d < documents.ids.size(); ++d) {
    double* const row = sums.values.data() + d * sums.columns;
    const ClassSet& t = documents.gold[d];
    const ClassSet& p = documents.predicted[d];
    add_sets(row, t, p, taxonomy.size());
    add_hierarchical(row, taxonomy.with_ancestors(t), taxonomy.with_ancestors(p));
    add_levels(row, t, p, levels);
    // A document without a prediction ranks nothing.
    if (!sums.ranking || documents.scores[d].empty()) continue;
    add_best(row, t, documents.scores[d]);
    add_ranks(row, t, documents.scores[d], taxonomy.size());
  }
  return sums;
}

}  // namespace gpuhpc::detail
