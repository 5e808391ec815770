#pragma once
// A corpus read in fixed blocks: every rank streams the file, and handles the blocks that are its
// own.
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/corpus.hpp"

namespace gpuhpc {

inline constexpr std::int64_t document_block =
    1024;  // documents; the unit in which sums over documents are cut

// Calls work(documents of the block, their texts) for each own block of the first `documents`
// documents, in order.
void for_own_blocks(const std::filesystem::path& corpus, const CorpusOptions& options,
                    std::int64_t documents, const Communicator& comm,
                    const std::function<void(Range, std::span<const std::string>)>& work);

// The rows of this rank.
inline Range own_documents(std::int64_t documents, const Communicator& comm) {
  return items_of_rank(documents, document_block, comm.rank(), comm.size());
}

}  // namespace gpuhpc
