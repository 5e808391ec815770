#include <algorithm>
#include <utility>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"
#include "row_blocks.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t queries_a_task = 128;

// Dot products with the documents touched so far; documents are forgotten after each query.
struct Accumulator {
  std::vector<float> scores;
  std::vector<std::int32_t> touched;

  void add(std::int32_t document, float value) {
    float& score = scores[static_cast<std::size_t>(document)];
    if (score == 0) touched.push_back(document);
    score += value;
  }
  void offer(TopK& best, std::int64_t self) const {
    for (const std::int32_t document : touched) {
      const float score = scores[static_cast<std::size_t>(document)];
      if (score >= best.worst() && document != self) best.offer(document, score);
    }
  }
  void clear() {
    for (const std::int32_t document : touched) scores[static_cast<std::size_t>(document)] = 0;
    touched.clear();
  }
};

struct SparseRow {
  std::span<const std::int32_t> columns;
  std::span<const float> values;
};

SparseRow row_of(const SparseMatrix& matrix, std::int64_t row) {
  const auto first = static_cast<std::size_t>(matrix.offsets[static_cast<std::size_t>(row)]);
  const auto count =
      static_cast<std::size_t>(matrix.offsets[static_cast<std::size_t>(row) + 1]) - first;
  return {std::span(matrix.columns).subspan(first, count),
          std::span(matrix.values).subspan(first, count)};
}

// Sums in ascending column order, as the inverted index does: the same bits.
float dot(const SparseRow& a, const SparseRow& b) {
  float sum = 0;
  for (std::size_t i = 0, j = 0; i < a.columns.size() && j < b.columns.size();) {
    if (a.columns[i] == b.columns[j])
      sum += a.values[i++] * b.values[j++];
    else if (a.columns[i] < b.columns[j])
      ++i;
    else
      ++j;
  }
  return sum;
}

TopK list_of(Neighbours& out, std::int64_t row) {
  const auto first = static_cast<std::size_t>(row * out.k);
  const auto count = static_cast<std::size_t>(out.k);
  return {std::span(out.indices).subspan(first, count),
          std::span(out.weights).subspan(first, count)};
}

// Calls one(query, accumulator, best list) for every query row, on a few threads.
template <typename One>
Neighbours each_query(std::int64_t indexed_rows, std::int64_t query_rows, Range rows,
                      std::int64_t k, int threads, const One& one) {
  if (rows.first < 0 || rows.first > rows.last || rows.last > query_rows) {
    throw internal_error("query rows [{}, {}) are not among {}", rows.first, rows.last, query_rows);
  }
  Neighbours out = no_neighbours(rows.size(), k);
  std::vector<Accumulator> accumulators(static_cast<std::size_t>(std::max(1, threads)));
  parallel_for(0, block_count(rows.size(), queries_a_task), threads,
               [&](std::int64_t task, int thread) {
                 Accumulator& accumulator = accumulators[static_cast<std::size_t>(thread)];
                 accumulator.scores.resize(static_cast<std::size_t>(indexed_rows));
                 const Range mine = block_items(task, rows.size(), queries_a_task);
                 for (std::int64_t i = mine.first; i < mine.last; ++i) {
                   TopK best = list_of(out, i);
                   one(rows.first + i, accumulator, best);
                   accumulator.clear();
                 }
               });
  return out;
}

}  // namespace

SparseIndex::SparseIndex(const SparseMatrix& indexed)
    : rows_(indexed.rows()),
      offsets_(static_cast<std::size_t>(indexed.columns_count) + 1),
      documents_(indexed.columns.size()),
      values_(indexed.columns.size()) {
  for (const std::int32_t column : indexed.columns)
    ++offsets_[static_cast<std::size_t>(column) + 1];
  for (std::size_t i = 1; i < offsets_.size(); ++i) offsets_[i] += offsets_[i - 1];
  std::vector<std::int64_t> next(offsets_.begin(), offsets_.end() - 1);
  for (std::int64_t row = 0; row < rows_; ++row) {
    const SparseRow entries = row_of(indexed, row);
    for (std::size_t i = 0; i < entries.columns.size(); ++i) {
      const auto at =
          static_cast<std::size_t>(next[static_cast<std::size_t>(entries.columns[i])]++);
      documents_[at] = static_cast<std::int32_t>(row);
      values_[at] = entries.values[i];
    }
  }
}

Neighbours SparseIndex::exact(const SparseMatrix& queries, Range rows, QuerySet set,
                              const NeighbourOptions& options, int threads) const {
  return each_query(rows_, queries.rows(), rows, options.k, threads,
                    [&](std::int64_t query, Accumulator& accumulator, TopK& best) {
                      const SparseRow row = row_of(queries, query);
                      for (std::size_t t = 0; t < row.columns.size(); ++t) {
                        const auto column = static_cast<std::size_t>(row.columns[t]);
                        for (auto p = static_cast<std::size_t>(offsets_[column]);
                             p < static_cast<std::size_t>(offsets_[column + 1]); ++p) {
                          accumulator.add(documents_[p], row.values[t] * values_[p]);
                        }
                      }
                      accumulator.offer(best, set == QuerySet::same ? query : -1);
                    });
}

Neighbours SparseIndex::approximate(const SparseMatrix& queries, const SparseMatrix& indexed,
                                    Range rows, QuerySet set, const NeighbourOptions& options,
                                    int threads) const {
  if (indexed.rows() != rows_)
    throw internal_error("the index has {} rows, the matrix {}", rows_, indexed.rows());
  const auto candidates = static_cast<std::size_t>(std::max(options.rescored, options.k));
  return each_query(
      rows_, queries.rows(), rows, options.k, threads,
      [&](std::int64_t query, Accumulator& accumulator, TopK& best) {
        const SparseRow row = row_of(queries, query);
        std::vector<std::size_t> order(row.columns.size());
        for (std::size_t t = 0; t < order.size(); ++t) order[t] = t;
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
          return row.values[a] > row.values[b];
        });
        const std::int64_t self = set == QuerySet::same ? query : -1;
        const auto visit = [&](std::size_t t, std::int64_t limit) {
          const auto column = static_cast<std::size_t>(row.columns[t]);
          const auto first = static_cast<std::size_t>(offsets_[column]);
          const auto count = std::min<std::int64_t>(offsets_[column + 1] - offsets_[column], limit);
          for (std::size_t p = first; p < first + static_cast<std::size_t>(count); ++p) {
            if (documents_[p] != self) accumulator.add(documents_[p], row.values[t] * values_[p]);
          }
          return count;
        };
        std::int64_t left = options.postings;
        for (const std::size_t t : order) {
          const auto column = static_cast<std::size_t>(row.columns[t]);
          if (offsets_[column + 1] - offsets_[column] <= left) left -= visit(t, left);
        }
        // Only very common words: the first documents of the heaviest one are better than no
        // neighbour.
        if (accumulator.touched.empty() && !order.empty()) visit(order[0], options.postings);
        std::vector<std::int32_t> indices(candidates, -1);
        std::vector<float> weights(candidates, 0.0F);
        TopK shortlist(indices, weights);
        accumulator.offer(shortlist, self);
        for (const std::int32_t document : indices) {
          if (document >= 0) best.offer(document, dot(row, row_of(indexed, document)));
        }
      });
}

}  // namespace gpuhpc
