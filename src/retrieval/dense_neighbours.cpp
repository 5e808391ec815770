#include <ATen/Parallel.h>

#include "gpuhpc/retrieval/neighbours.hpp"
#include "row_blocks.hpp"
#include "top_k.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t indexed_block =
    4096;  // rows a product; with 512 queries the scores stay in cache

// Offers one (queries, indexed) block of scores to the queries' top lists, which start at row
// `out_row` of `out`.
void offer_block(const at::Tensor& scores, std::int64_t out_row, std::int64_t first_query,
                 std::int64_t first_indexed, QuerySet set, Neighbours& out) {
  const std::int64_t width = scores.size(1);
  const float* data = scores.data_ptr<float>();
  at::parallel_for(0, scores.size(0), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t q = begin; q < end; ++q) {
      const auto at_row = static_cast<std::size_t>((out_row + q) * out.k);
      const auto count = static_cast<std::size_t>(out.k);
      TopK best(std::span(out.indices).subspan(at_row, count),
                std::span(out.weights).subspan(at_row, count));
      const auto name = [&](std::size_t j) {
        return static_cast<std::int32_t>(first_indexed + static_cast<std::int64_t>(j));
      };
      const std::span row(data + q * width, static_cast<std::size_t>(width));
      const std::int64_t self = first_query + q - first_indexed;
      if (set == QuerySet::same && self >= 0 && self < width) {
        best.offer_all(row.first(static_cast<std::size_t>(self)), name);
        best.offer_all(row.subspan(static_cast<std::size_t>(self) + 1),
                       [&](std::size_t j) { return name(j + static_cast<std::size_t>(self) + 1); });
      } else {
        best.offer_all(row, name);
      }
    }
  });
}

}  // namespace

Neighbours dense_neighbours(MatrixView queries, MatrixView indexed, Range rows, QuerySet set,
                            const NeighbourOptions& options) {
  check_blocks(rows, queries.rows, neighbour_block);
  if (queries.columns != indexed.columns) {
    throw internal_error("queries have {} columns, the indexed rows {}", queries.columns,
                         indexed.columns);
  }
  Neighbours out = no_neighbours(rows.size(), options.k);
  for (std::int64_t q = rows.first; q < rows.last; q += neighbour_block) {
    const Range block{q, std::min(rows.last, q + neighbour_block)};
    const at::Tensor left = copy_rows(queries, block);
    for (std::int64_t i = 0; i < indexed.rows; i += indexed_block) {
      const at::Tensor right = copy_rows(indexed, {i, std::min(indexed.rows, i + indexed_block)});
      offer_block(at::mm(left, right.t()), q - rows.first, q, i, set, out);
    }
  }
  return out;
}

}  // namespace gpuhpc
