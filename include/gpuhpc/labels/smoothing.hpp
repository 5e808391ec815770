#pragma once
// Neighbour smoothing of posteriors (quality recipe, step 8): F <- keep * P + (1 - keep) * A F, row
// block by row block, so that ranks own rows; the caller gathers F between rounds.
#include "gpuhpc/base/matrix.hpp"

namespace gpuhpc {

// own (B, K): P of the block's rows. neighbours: row j = the block's row j, columns = rows of
// `all`, weights sum to 1. all (N, K): F of all training documents after the round before. smoothed
// (B, K), may not alias all. A row without neighbours keeps P. Used alike for test rows (neighbours
// among the training rows).
void smooth_rows(MatrixView own, const SparseMatrix& neighbours, MatrixView all, double keep,
                 MutableMatrixView smoothed);

// Average of two posteriors over the same rows, in place into `first` (step 11: student and
// teacher).
void average_into(MutableMatrixView first, MatrixView second);

}  // namespace gpuhpc
