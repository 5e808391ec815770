#pragma once
// k nearest neighbours by cosine (dot product of unit rows): exact over dense or sparse rows,
// approximate over large sets. Queries are cut into fixed blocks, so a rank that owns the blocks of
// base/block.hpp computes the same bits whatever the rank count:
//   const Range mine = items_of_rank(n, neighbour_block, rank, size);
//   Neighbours part = dense_neighbours(vectors, vectors, mine, options);   // gather the parts in
//   rank order
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/config/options.hpp"
#include "gpuhpc/kernels/isa.hpp"

namespace gpuhpc {

constexpr std::int64_t neighbour_block = 512;  // queries a block, exact search

struct NeighbourOptions {
  static constexpr const char* section = "neighbours";
  std::int64_t k = 10;
  // indexed rows beyond which search is approximate; 0 = never
  std::int64_t approximate_above = 100000;
  std::int64_t lists = 0;         // dense index: clusters; 0 = about sqrt(rows), a multiple of 16
  std::int64_t probes = 16;       // dense index: clusters searched a query
  std::int64_t postings = 20000;  // sparse index: postings visited a query, rarest terms first
  std::int64_t rescored = 64;     // sparse index: best partial scores that are computed exactly
  std::uint64_t seed = 1;         // dense index: sample for the clusters
  float above = 0;                // exact dense search: the cosines that count
};
// Keys neighbours, approximate-above, lists, probes, postings, rescored.
void declare(config::Section& section, NeighbourOptions& options);

// The k best of each query, best first; ties: lower index first. Only positive cosines (exact dense
// search: those above a bound); -1 (weight 0) where there are fewer.
struct Neighbours {
  std::int64_t k = 0;
  std::vector<std::int32_t> indices;  // (n, k)
  std::vector<float> weights;         // (n, k)
  std::int64_t rows() const { return k == 0 ? 0 : static_cast<std::int64_t>(indices.size()) / k; }
};

// How a query set relates to the indexed one.
enum class QuerySet {
  same,  // query row i is indexed row i: never its own neighbour
  other  // new rows: every indexed row may be a neighbour
};

// The products that pass over rows which cannot be near; the answer is the same with any.
struct Screening {
  kernels::Isa isa = kernels::best_isa();
  bool bf16 = isa >= kernels::Isa::avx512_bf16;  // of rows rounded to bf16; otherwise fp32
};

// Exact: a weight is the product summed in double in a fixed order, then rounded to float. The same
// bytes for any cut into `rows`, number of threads and instruction set. `rows` = the query rows
// wanted, starting at a multiple of neighbour_block and ending at one or at the end. Row j of the
// result belongs to query rows.first + j. Matrices may be memory maps; memory used is a few blocks.
// Uses the threads of at::parallel_for: call it outside of loops over threads, with many rows at
// once (each call packs the indexed rows).
Neighbours dense_neighbours(MatrixView queries, MatrixView indexed, Range rows, QuerySet set,
                            const NeighbourOptions& options = {}, const Screening& screening = {});

// Inverted index over sparse rows of unit length. Memory: 8 bytes an entry.
class SparseIndex {
 public:
  explicit SparseIndex(const SparseMatrix& indexed);
  std::int64_t rows() const { return rows_; }
  Neighbours exact(const SparseMatrix& queries, Range rows, QuerySet set,
                   const NeighbourOptions& options = {}, int threads = 1) const;
  // Visits whole posting lists, heaviest query term first, until options.postings are used up, then
  // computes the options.rescored best exactly against `indexed` (the matrix that the index was
  // made from).
  Neighbours approximate(const SparseMatrix& queries, const SparseMatrix& indexed, Range rows,
                         QuerySet set, const NeighbourOptions& options = {}, int threads = 1) const;

 private:
  std::int64_t rows_ = 0;
  std::vector<std::int64_t> offsets_;    // (columns + 1)
  std::vector<std::int32_t> documents_;  // ascending within a column
  std::vector<float> values_;
};

// Clustered index over dense unit rows (inverted file, Jegou et al. 2011 without quantisation):
// spherical k-means on a sample, then only the nearest `probes` clusters of a query are searched,
// exactly. Same bits on any rank count.
class DenseIndex {
 public:
  static constexpr std::int64_t query_block = 8192;
  // Centres are learnt from a sample by every rank alike; `assign` is the costly part and can be
  // dealt to ranks:
  DenseIndex(MatrixView indexed, const NeighbourOptions& options);
  std::vector<std::int32_t> assign(
      Range rows) const;  // cluster of each row; rows on query_block boundaries
  void set_lists(std::span<const std::int32_t> clusters);  // of all rows, in row order
  std::int64_t lists() const { return centres_.rows; }
  // Query rows on query_block boundaries (or ending at the end). Callers deal blocks to threads.
  Neighbours search(MatrixView queries, Range rows, QuerySet set) const;

 private:
  MatrixView indexed_;
  NeighbourOptions options_;
  Matrix centres_;                     // (lists, width), unit rows
  std::vector<std::int64_t> offsets_;  // (lists + 1)
  std::vector<std::int32_t> members_;  // rows of each list, ascending
};

// A = mean of the two neighbour sets, each row's weights summing to 1: (rows, columns), columns
// ascending. A row that has neighbours in one set only takes that set alone; a row with none at all
// stays empty.
SparseMatrix average_neighbours(const Neighbours& first, const Neighbours& second,
                                std::int64_t columns);
// Of each row the first among the `nearest` first ones of `first` that is among so many of
// `second`; -1: none is.
std::vector<std::int32_t> nearest_in_both(const Neighbours& first, const Neighbours& second,
                                          std::int64_t nearest);
// Share of `exact`'s neighbours that `found` has too.
double recall(const Neighbours& found, const Neighbours& exact);

}  // namespace gpuhpc
