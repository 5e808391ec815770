#pragma once
// Texts for a model at work, chunk by chunk, in order, in bounded memory.
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/infer/encode.hpp"

namespace gpuhpc {

// Documents that follow each other, spread over ranks.
struct DocumentChunk {
  std::int64_t first = 0;          // of them in their source
  std::vector<std::string> ids;    // of all (B), on every rank
  TokenSource tokens;              // of all, on every rank
  Range own;                       // rows of this rank
  std::vector<std::string> texts;  // of these rows

  std::string name(std::int64_t document) const {  // in messages
    return fmt::format("document `{}`", ids[static_cast<std::size_t>(document)]);
  }
};

inline constexpr std::int64_t chunk_documents = 4096;  // in memory
// The next chunk; false at the end. Collective.
using ChunkSource = std::function<bool(DocumentChunk&)>;
// Of shards with texts, made by the model's tokenizer. Both must outlive the source.
ChunkSource chunks_of(const TokenDataset& documents, const Communicator& comm);
// Of a file or standard input that the root alone reads, `most` rows at once; each rank tokenises
// its own, each behind `prefix`. Ids may be missing, which is said once, or given twice.
ChunkSource chunks_of(const std::filesystem::path& corpus, const CorpusOptions& options,
                      const Tokenizer& tokenizer, Communicator& comm, int threads, const Log& log,
                      std::string prefix = "", std::int64_t most = chunk_documents);

}  // namespace gpuhpc
