#pragma once
// The texts of a column that differ, what belongs to them, and what is near them.
#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/eval/pairs.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"

namespace gpuhpc {

// Of some rows: where among them each text stands first, and each row's number of its text.
struct DistinctTexts {
  std::vector<std::int64_t> places;
  std::vector<std::int32_t> number;
  std::int64_t size() const { return std::ssize(places); }
};
DistinctTexts distinct_texts(const TokenDataset& column, std::span<const std::int64_t> rows);
std::vector<std::int64_t> all_rows(const TokenDataset& column);

// Of all rows of the column. Both must outlive it.
TokenSource source_of(const TokenDataset& column, const DistinctTexts& texts);

// Which of `second` stand in a row with each of `first`, in the order of the rows, each once.
std::vector<std::vector<std::int32_t>> belonging(const DistinctTexts& first,
                                                 const DistinctTexts& second);

// The k nearest of `texts` for the queries `wanted`, whatever their cosine, on every rank; unit
// rows. Collective: each rank searches for its blocks.
Neighbours nearest_texts(MatrixView queries, MatrixView texts, Range wanted, std::int64_t k,
                         Communicator& comm);

// The pairs of texts that are nearest to each other, best first, at most `most`: each text's
// nearest `each`, a pair once. Unit rows. Collective, the same on every rank.
std::vector<ScoredPair> nearest_pairs(MatrixView texts, std::int64_t each, std::int64_t most,
                                      Communicator& comm);

}  // namespace gpuhpc
