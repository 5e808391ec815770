#pragma once
// Tokenised documents in HDF5 shards: cut by the documents alone, filled by all ranks, one manifest
// last. Shard datasets: tokens int32 (T), offsets int64 (documents+1), ids (documents, fixed-width
// strings); with texts also text uint8 (bytes, UTF-8) and text_offsets int64 (documents+1).
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/corpus.hpp"

namespace gpuhpc {

class Tokenizer;  // text/tokenizer.hpp

struct ShardOptions {  // a shard ends with the block of the scan that reaches either
  static constexpr const char* section = "prepare";
  std::int64_t shard_documents = 65536;
  // of text: what all ranks together hold in memory is about four times this
  std::int64_t shard_megabytes = 256;
};
void declare(config::Section& section, ShardOptions& options);  // shard-documents, shard-megabytes

struct ShardSummary {
  std::int64_t documents = 0, tokens = 0, shards = 0,
               longest = 0;  // tokens of the longest document, without specials
};

enum class Texts { leave, keep };  // keep: for whoever reads them later, instead of the file

// Collective. Each rank reads and tokenises its share of the blocks of every shard. The files are
// the same bytes on any number of ranks. `progress(documents)` is called with the documents newly
// read on this rank; may be empty.
ShardSummary prepare_shards(const CorpusScan& corpus, const Tokenizer& tokenizer,
                            const std::filesystem::path& folder, const ShardOptions& options,
                            Texts texts, Communicator& comm, int threads,
                            const std::function<void(std::int64_t)>& progress = {});
// The same of rows: column by column of RowOptions::texts a folder of its own, row by row aligned.
ShardSummary prepare_shards(const CorpusScan& corpus, const Tokenizer& tokenizer,
                            std::span<const std::filesystem::path> folders,
                            const ShardOptions& options, Texts texts, Communicator& comm,
                            int threads, const std::function<void(std::int64_t)>& progress = {});

// The shards of a folder, mapped. A manifest or shard that is missing, cut or altered is an
// input_error.
class TokenDataset {
 public:
  explicit TokenDataset(const std::filesystem::path& folder);
  ~TokenDataset();
  TokenDataset(TokenDataset&&) noexcept;
  TokenDataset& operator=(TokenDataset&&) noexcept;

  // Documents are read in the order of a training: where memory is smaller than the shards, a read
  // brings in its page and no other (the read-ahead of a slow disk can take longer than a step).
  void expect_random_reads() const;
  std::int64_t size() const { return first_.back(); }
  std::span<const std::int32_t> tokens(std::int64_t document) const;  // without specials, never cut
  // The same. Throws input_error, with shard and document, for a token that no tokenizer gave: a
  // shard is checked when it is opened, and read long after.
  std::span<const std::int32_t> sound_tokens(std::int64_t document) const;
  std::int64_t length(std::int64_t document) const { return std::ssize(tokens(document)); }
  std::string_view id(std::int64_t document) const;
  std::string_view text(std::int64_t document) const;  // of shards made with Texts::keep
  std::int64_t token_count() const { return token_count_; }
  const std::string& tokenizer_fingerprint() const { return tokenizer_fingerprint_; }
  std::int64_t vocabulary_size() const { return vocabulary_size_; }  // every token is below it
  const std::string& fingerprint() const {
    return fingerprint_;
  }  // of the manifest: content of everything
  // input_error unless the shards were made by this tokenizer.
  void check_tokenizer(const Tokenizer& tokenizer) const;

 private:
  struct Shard;
  const Shard& shard_of(std::int64_t document, std::int64_t& local) const;
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::int64_t> first_{0};  // first document of each shard, and the end
  std::int64_t shard_documents_ = 1, token_count_ = 0, vocabulary_size_ = 0;
  std::string tokenizer_fingerprint_, fingerprint_;
};

}  // namespace gpuhpc
