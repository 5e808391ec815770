#pragma once
// Neighbour smoothing of posteriors (quality recipe, step 8): F <- keep * P + (1 - keep) * A F, row block by row block,
// so that ranks own rows; the caller gathers F between rounds.
#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"

namespace gpuhpc {

// own (B, K): P of the block's rows. neighbours: row j = the block's row j, columns = rows of `all`, weights sum to 1.
// all (N, K): F of all training documents after the round before. smoothed (B, K), may not alias all.
// A row without neighbours keeps P. Used alike for test rows (neighbours among the training rows).
void smooth_rows(MatrixView own, const SparseMatrix& neighbours, MatrixView all, double keep, MutableMatrixView smoothed);

// Posteriors of many documents kept as the `width` largest entries of each row: fixed stride, so that ranks gather them
// by row. Entries descend (ties: lower path first); unused ones are path -1, value 0.
struct TopPosterior {
  std::int64_t paths = 0;            // K of the full rows
  std::int64_t width = 0;
  std::vector<std::int32_t> path;    // (rows, width)
  std::vector<float> value;          // (rows, width)
  std::int64_t rows() const { return width == 0 ? 0 : static_cast<std::int64_t>(value.size()) / width; }
};

struct TopPosteriorView {  // the same over memory that someone else owns (a mapped file)
  std::int64_t paths = 0, width = 0, rows = 0;
  const std::int32_t* path = nullptr;
  const float* value = nullptr;
};
TopPosteriorView view_of(const TopPosterior& posterior);

// Appends the block's rows; kept values are scaled so that the row keeps its sum.
void append_top(MatrixView posterior, TopPosterior& top);
// Row as a full vector (K).
void expand_row(const TopPosteriorView& posterior, std::int64_t row, std::span<float> full);
// smooth_rows with F kept as top entries.
void smooth_rows(MatrixView own, const SparseMatrix& neighbours, const TopPosteriorView& all, double keep, MutableMatrixView smoothed);

// Average of two posteriors over the same rows, in place into `first` (step 11: student and teacher).
void average_into(MutableMatrixView first, MatrixView second);

}  // namespace gpuhpc
