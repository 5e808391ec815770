#include "gpuhpc/pipelines/embedding/distinct_texts.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>

namespace gpuhpc {

DistinctTexts distinct_texts(const TokenDataset& column, std::span<const std::int64_t> rows) {
  DistinctTexts found;
  std::map<std::string_view, std::int32_t> numbers;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [place, added] =
        numbers.emplace(column.text(rows[i]), static_cast<std::int32_t>(found.places.size()));
    if (added) found.places.push_back(static_cast<std::int64_t>(i));
    found.number.push_back(place->second);
  }
  return found;
}

std::vector<std::int64_t> all_rows(const TokenDataset& column) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(column.size()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

TokenSource source_of(const TokenDataset& column, const DistinctTexts& texts) {
  return {texts.size(),
          [&](std::int64_t i) { return column.tokens(texts.places[static_cast<std::size_t>(i)]); },
          [&](std::int64_t i) {
            return fmt::format("the text of row {}", texts.places[static_cast<std::size_t>(i)]);
          }};
}

std::vector<std::vector<std::int32_t>> belonging(const DistinctTexts& first,
                                                 const DistinctTexts& second) {
  std::vector<std::vector<std::int32_t>> texts(first.places.size());
  for (std::size_t i = 0; i < first.number.size(); ++i) {
    auto& of_first = texts[static_cast<std::size_t>(first.number[i])];
    if (std::ranges::find(of_first, second.number[i]) == of_first.end())
      of_first.push_back(second.number[i]);
  }
  return texts;
}

Neighbours nearest_texts(MatrixView queries, MatrixView texts, Range wanted, std::int64_t k,
                         Communicator& comm) {
  NeighbourOptions options;
  options.k = k;
  options.above = -2;  // every cosine
  Range mine = items_of_rank(wanted.size(), neighbour_block, comm.rank(), comm.size());
  mine.first += wanted.first, mine.last += wanted.first;
  const Neighbours own = dense_neighbours(queries, texts, mine, QuerySet::other, options);
  return {k, comm.all_gather_v(std::span(own.indices)), comm.all_gather_v(std::span(own.weights))};
}

std::vector<ScoredPair> nearest_pairs(MatrixView texts, std::int64_t each, std::int64_t most,
                                      Communicator& comm) {
  const std::int64_t k = std::min(each + 1, texts.rows);  // a text is its own nearest
  const Neighbours near = nearest_texts(texts, texts, {0, texts.rows}, k, comm);
  std::vector<ScoredPair> pairs;
  PairSet seen;
  for (std::int64_t i = 0; i < texts.rows; ++i)
    for (std::int64_t n = 0, kept = 0; n < k && kept < each; ++n) {
      const auto at = static_cast<std::size_t>(i * k + n);
      const auto own = static_cast<std::int32_t>(i), other = near.indices[at];
      if (other == own) continue;
      ++kept;
      const auto [a, b] = std::minmax(own, other);
      if (seen.emplace(a, b).second) pairs.push_back({near.weights[at], a, b});
    }
  std::ranges::stable_sort(pairs, std::greater{}, &ScoredPair::cosine);
  if (std::ssize(pairs) > most) pairs.resize(static_cast<std::size_t>(most));
  return pairs;
}

}  // namespace gpuhpc
