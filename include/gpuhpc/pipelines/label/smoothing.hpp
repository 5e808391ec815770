#pragma once
// Neighbours of a corpus, by TF-IDF and by vectors, and smoothing of a whole posterior with
// them (quality recipe, step 8), spread over ranks by rows, kept in files.
#include <cstdint>
#include <filesystem>
#include <functional>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"
#include "gpuhpc/retrieval/tfidf.hpp"

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

// The corpus as the stages before training left it, and how its scores are made.
struct ScoredCorpus {
  const EncodingFiles& encoding;
  const PosteriorFiles& posterior;
  const InferOptions& infer;
  const PathScoring& scoring;
};

// What a trained `model` folder makes of the corpus, smoothed with its neighbours as the teacher's
// posterior was (quality recipe, step 11): dataset "values" (N, columns) of `output`. score(x'
// (B,H), scores (B, columns) to fill) may be called from many threads. Collective.
void write_smoothed_scores(
    const StageContext& context, const ScoredCorpus& corpus, const std::filesystem::path& model,
    std::int64_t columns,
    const std::function<void(MatrixView centred, MutableMatrixView scores)>& score,
    const std::filesystem::path& output);

struct CorpusNeighbours {
  TfidfModel tfidf;
  SparseMatrix rows;  // all documents' TF-IDF rows
  // Of this rank's documents, among all: by TF-IDF and by x'.
  Neighbours sparse, dense;
};

// `centred`: file of x' (N,H). Collective.
CorpusNeighbours find_neighbours(const TokenDataset& corpus, const std::filesystem::path& centred,
                                 const TfidfOptions& tfidf, const NeighbourOptions& options,
                                 Communicator& comm, int threads);

}  // namespace gpuhpc
