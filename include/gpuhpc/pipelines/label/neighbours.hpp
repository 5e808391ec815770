#pragma once
// The neighbour matrix A of a corpus: mean of TF-IDF and dense nearest neighbours (quality recipe,
// step 8).
#include <filesystem>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"
#include "gpuhpc/retrieval/tfidf.hpp"

namespace gpuhpc {

struct CorpusNeighbours {
  TfidfModel tfidf;
  SparseMatrix rows;  // all documents' TF-IDF rows
  SparseMatrix own;   // A: rows of this rank's documents, columns all documents
};

// `centred`: file of x' (N,H). Collective.
CorpusNeighbours find_neighbours(const TokenDataset& corpus, const std::filesystem::path& centred,
                                 const TfidfOptions& tfidf, const NeighbourOptions& options,
                                 Communicator& comm, int threads);

}  // namespace gpuhpc
