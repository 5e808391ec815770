#pragma once
// Neighbour smoothing of a whole posterior (quality recipe, step 8), spread over ranks by rows,
// kept in files.
#include <filesystem>
#include <functional>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

// `own_neighbours`: rows of A that belong to this rank (own_documents). Writes the smoothed
// posterior (dataset "values") to `output`; `rounds` 0 copies. Collective.
void smooth_posterior(const std::filesystem::path& posterior, const SparseMatrix& own_neighbours,
                      std::int64_t rounds, double keep, const std::filesystem::path& output,
                      Communicator& comm, int threads);

// Rows [first, first + count) of a sparse matrix.
SparseMatrix sparse_rows(const SparseMatrix& matrix, std::int64_t first, std::int64_t count);
// The pieces of all ranks one behind the other; every rank gets the whole.
SparseMatrix gather_rows_of_ranks(const SparseMatrix& own, Communicator& comm);

// A file of (rows, columns) floats, dataset "values", filled block by block by `threads` threads:
// fill(block rows, values to set). Collective.
void write_row_blocks(const std::filesystem::path& path, std::int64_t rows, std::int64_t columns,
                      Communicator& comm, int threads,
                      const std::function<void(Range, MutableMatrixView)>& fill);

}  // namespace gpuhpc
