#include "gpuhpc/retrieval/neighbours.hpp"

#include <algorithm>
#include <utility>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

void declare(config::Section& section, NeighbourOptions& options) {
  section.option("k", options.k, "nearest neighbours a document in each graph").range(1, 1000);
  section
      .option("approximate-above", options.approximate_above,
              "more documents than this: approximate neighbours; 0 = never")
      .range(0, 2e9);
  section
      .option("lists", options.lists,
              "approximate dense index: clusters; 0 = about the square root of the documents")
      .range(0, 1e6);
  section
      .option("probes", options.probes, "approximate dense index: clusters searched per document")
      .range(1, 1e6);
  section
      .option("postings", options.postings,
              "approximate sparse index: postings visited per document")
      .range(1, 1e9);
  section
      .option("rescored", options.rescored, "approximate sparse index: candidates computed exactly")
      .range(1, 1e6);
}

namespace {

struct Edge {
  std::int32_t index;
  double weight;
};

// Adds the row's neighbours, weights summing to `share`; false when it has none.
bool append(const Neighbours& neighbours, std::int64_t row, double share,
            std::vector<Edge>& edges) {
  const auto first = static_cast<std::size_t>(row * neighbours.k);
  const auto last = first + static_cast<std::size_t>(neighbours.k);
  double sum = 0;
  for (std::size_t i = first; i < last; ++i) sum += static_cast<double>(neighbours.weights[i]);
  if (!(sum > 0)) return false;
  for (std::size_t i = first; i < last; ++i) {
    if (neighbours.indices[i] >= 0)
      edges.push_back(
          {neighbours.indices[i], share * static_cast<double>(neighbours.weights[i]) / sum});
  }
  return true;
}

void append_row(std::vector<Edge>& edges, SparseMatrix& out) {
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.index < b.index; });
  for (std::size_t i = 0; i < edges.size();) {
    double weight = 0;
    std::size_t j = i;
    for (; j < edges.size() && edges[j].index == edges[i].index; ++j) weight += edges[j].weight;
    out.columns.push_back(edges[i].index);
    out.values.push_back(static_cast<float>(weight));
    i = j;
  }
  out.offsets.push_back(static_cast<std::int64_t>(out.columns.size()));
}

}  // namespace

SparseMatrix average_neighbours(const Neighbours& first, const Neighbours& second,
                                std::int64_t columns) {
  if (first.rows() != second.rows()) {
    throw internal_error("neighbour sets of {} and {} rows cannot be averaged", first.rows(),
                         second.rows());
  }
  SparseMatrix out;
  out.columns_count = columns;
  std::vector<Edge> edges;
  for (std::int64_t row = 0; row < first.rows(); ++row) {
    edges.clear();
    const bool has_first = append(first, row, 0.5, edges);
    const bool has_second = append(second, row, 0.5, edges);
    if (has_first != has_second) {
      for (Edge& edge : edges) edge.weight *= 2;
    }
    append_row(edges, out);
  }
  return out;
}

std::vector<std::int32_t> nearest_in_both(const Neighbours& first, const Neighbours& second,
                                          std::int64_t nearest) {
  if (first.rows() != second.rows())
    throw internal_error("neighbour sets of {} and {} rows cannot be compared", first.rows(),
                         second.rows());
  const auto nearest_of = [&](const Neighbours& set, std::int64_t row) {
    return std::span(set.indices)
        .subspan(static_cast<std::size_t>(row * set.k),
                 static_cast<std::size_t>(std::min(nearest, set.k)));
  };
  std::vector<std::int32_t> shared(static_cast<std::size_t>(first.rows()), -1);
  for (std::int64_t row = 0; row < first.rows(); ++row) {
    const auto others = nearest_of(second, row);
    for (const std::int32_t index : nearest_of(first, row)) {
      if (index < 0 || std::ranges::find(others, index) == others.end()) continue;
      shared[static_cast<std::size_t>(row)] = index;
      break;
    }
  }
  return shared;
}

double recall(const Neighbours& found, const Neighbours& exact) {
  if (found.rows() != exact.rows())
    throw internal_error("recall of {} rows against {}", found.rows(), exact.rows());
  std::int64_t wanted = 0, hits = 0;
  for (std::int64_t row = 0; row < exact.rows(); ++row) {
    const auto mine =
        std::span(found.indices)
            .subspan(static_cast<std::size_t>(row * found.k), static_cast<std::size_t>(found.k));
    for (std::int64_t i = 0; i < exact.k; ++i) {
      const std::int32_t index = exact.indices[static_cast<std::size_t>(row * exact.k + i)];
      if (index < 0) continue;
      ++wanted;
      if (std::find(mine.begin(), mine.end(), index) != mine.end()) ++hits;
    }
  }
  return wanted == 0 ? 1 : static_cast<double>(hits) / static_cast<double>(wanted);
}

}  // namespace gpuhpc
