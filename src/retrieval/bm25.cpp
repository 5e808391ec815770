#include "gpuhpc/retrieval/bm25.hpp"

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

void declare(config::Section& section, Bm25Options& options) {
  section.option("bm25-k1", options.k1, "BM25: how soon repeated occurrences stop counting").range(0, 100);
  section.option("bm25-b", options.b, "BM25: share of the length normalisation").range(0, 1);
  section.option("bm25-epsilon", options.epsilon, "BM25: share of the mean idf given to phrases that most groups have").range(0, 1);
}

GroupCounts::GroupCounts(std::int64_t groups, std::int64_t phrases)
    : groups_(groups),
      phrases_(phrases),
      counts_(static_cast<std::size_t>(groups * phrases)),
      documents_(counts_.size()),
      lengths_(static_cast<std::size_t>(groups)) {}

void GroupCounts::add(std::int64_t group, std::span<const std::int32_t> phrases, std::int64_t length) {
  const auto row = static_cast<std::size_t>(group * phrases_);
  std::vector<std::int32_t> distinct(phrases.begin(), phrases.end());
  for (const std::int32_t phrase : phrases) ++counts_[row + static_cast<std::size_t>(phrase)];
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const std::int32_t phrase : distinct) ++documents_[row + static_cast<std::size_t>(phrase)];
  lengths_[static_cast<std::size_t>(group)] += length;
}

namespace {

// Robertson's idf over the family, negative values lifted to epsilon * mean (over phrases that occur at all).
std::vector<double> inverse_frequencies(const GroupCounts& counts, std::span<const std::int32_t> family, double epsilon) {
  const double groups = static_cast<double>(family.size());
  std::vector<double> idf(static_cast<std::size_t>(counts.phrases()));
  double sum = 0;
  std::int64_t seen = 0;
  for (std::int64_t t = 0; t < counts.phrases(); ++t) {
    const auto having =
        static_cast<double>(std::count_if(family.begin(), family.end(), [&](std::int32_t g) { return counts.count(g, t) > 0; }));
    if (having == 0) continue;
    idf[static_cast<std::size_t>(t)] = std::log(groups - having + 0.5) - std::log(having + 0.5);
    sum += idf[static_cast<std::size_t>(t)];
    ++seen;
  }
  const double floor_value = seen > 0 ? epsilon * sum / static_cast<double>(seen) : 0;
  for (double& value : idf) {
    if (value < 0) value = floor_value;
  }
  return idf;
}

}  // namespace

Matrix bm25_scores(const GroupCounts& counts, std::span<const std::int32_t> family, const Bm25Options& options) {
  Matrix scores(std::ssize(family), counts.phrases());
  double mean_length = 0;
  for (const std::int32_t group : family) mean_length += static_cast<double>(counts.length(group));
  mean_length /= static_cast<double>(std::max<std::size_t>(1, family.size()));
  if (mean_length == 0) return scores;
  const std::vector<double> idf = inverse_frequencies(counts, family, options.epsilon);
  for (std::int64_t row = 0; row < scores.rows; ++row) {
    const std::int32_t group = family[static_cast<std::size_t>(row)];
    const double norm = options.k1 * (1 - options.b + options.b * static_cast<double>(counts.length(group)) / mean_length);
    for (std::int64_t t = 0; t < scores.columns; ++t) {
      const double tf = counts.count(group, t);
      if (tf > 0)
        scores.row(row)[static_cast<std::size_t>(t)] =
            static_cast<float>(idf[static_cast<std::size_t>(t)] * tf * (options.k1 + 1) / (tf + norm));
    }
  }
  return scores;
}

}  // namespace gpuhpc
