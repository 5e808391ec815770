#pragma once
// A corpus in fixed blocks: each rank reads the texts of its own from the token shards.
#include <functional>
#include <span>
#include <string>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/token_shards.hpp"

namespace gpuhpc {

// documents; the unit in which sums over documents are cut
inline constexpr std::int64_t document_block = 1024;

// Calls work(documents of the block, their texts) for each own block, in order.
void for_own_blocks(const TokenDataset& documents, const Communicator& comm,
                    const std::function<void(Range, std::span<const std::string>)>& work);
// Whether row i is one of the `chosen` rows spread evenly over `rows`; all where there are fewer.
inline bool evenly_chosen(std::int64_t i, std::int64_t chosen, std::int64_t rows) {
  return rows <= chosen || i * chosen / rows != (i + 1) * chosen / rows;
}
// Documents [rows.first, rows.last).
std::vector<std::string> texts_of(const TokenDataset& documents, Range rows);

// The rows of one rank.
inline Range own_documents(std::int64_t documents, const Communicator& comm) {
  return items_of_rank(documents, document_block, comm.rank(), comm.size());
}

}  // namespace gpuhpc
