#include "gpuhpc/pipelines/document_chunks.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {

Range own_rows(std::int64_t documents, int rank, int size) {
  return items_of_rank(documents, neighbour_block, rank, size);
}

// The root reads; the texts of its own rows go to each rank.
class StreamChunks {
 public:
  StreamChunks(const std::filesystem::path& corpus, CorpusOptions options,
               const Tokenizer& tokenizer, Communicator& comm, int threads, Log log,
               std::string prefix, std::int64_t most)
      : tokenizer_(tokenizer),
        comm_(comm),
        threads_(threads),
        log_(std::move(log)),
        id_field_(options.id_field),
        prefix_(std::move(prefix)),
        most_(most) {
    options.ids_optional = true, options.check_duplicates = false;
    on_root(comm, [&] { reader_ = std::make_shared<CorpusReader>(corpus, std::move(options)); });
  }

  bool operator()(DocumentChunk& chunk) {
    std::vector<std::string> ids, texts;
    on_root(comm_, [&] {
      for (Document document; std::ssize(texts) < most_ && reader_->next(document);) {
        check_numbering();
        ids.push_back(std::move(document.id));
        texts.push_back(prefix_ + document.text);
      }
    });
    std::int64_t count = std::ssize(texts);
    comm_.broadcast(&count, 1, DataType::int64, 0);
    chunk.first = std::exchange(first_, first_ + count);
    chunk.own = own_rows(count, comm_.rank(), comm_.size());
    chunk.ids = broadcast(std::move(ids), count, {0, count});
    chunk.texts = broadcast(std::move(texts), count, chunk.own);
    std::vector<std::vector<std::int32_t>> own;
    run_collectively(comm_, [&] { own = tokenize(tokenizer_, chunk.texts, threads_); });
    const auto all = std::make_shared<std::vector<std::vector<std::int32_t>>>(
        comm_.all_gather_lists(std::span<const std::vector<std::int32_t>>(own)));
    chunk.tokens = {count,
                    [all](std::int64_t i) {
                      return std::span<const std::int32_t>((*all)[static_cast<std::size_t>(i)]);
                    },
                    [&chunk](std::int64_t i) { return chunk.name(i); }};
    return count > 0;
  }

 private:
  void check_numbering() {
    const bool numbered = reader_->numbered();
    if (numbered_ && *numbered_ != numbered)
      throw input_error(
          "{}: {} `{}`, unlike the rows before; give every row an id of its own, or none",
          reader_->where(), numbered ? "no" : "a field", id_field_);
    if (numbered && !numbered_)
      log_->warn(
          "{}: no `{}` in these rows: their numbers, from 0, are their ids; where another column "
          "or field holds ids, name it with --input.id-field",
          reader_->where(), id_field_);
    numbered_ = numbered;
  }
  // The root's texts, of which each rank gets those of some rows.
  std::vector<std::string> broadcast(std::vector<std::string> texts, std::int64_t count,
                                     Range wanted) const {
    if (comm_.size() == 1) return texts;
    std::vector<std::int64_t> lengths;
    for (const std::string& text : texts) lengths.push_back(std::ssize(text));
    lengths.resize(static_cast<std::size_t>(count));
    comm_.broadcast(std::span<std::int64_t>(lengths));
    std::string joined;
    for (const std::string& text : texts) joined += text;
    joined = comm_.broadcast_string(std::move(joined));
    std::vector<std::string> mine;
    std::size_t at = 0;
    for (std::int64_t i = 0; i < wanted.last; ++i) {
      const auto length = static_cast<std::size_t>(lengths[static_cast<std::size_t>(i)]);
      if (i >= wanted.first) mine.push_back(joined.substr(at, length));
      at += length;
    }
    return mine;
  }

  const Tokenizer& tokenizer_;
  Communicator& comm_;
  int threads_;
  Log log_;
  std::string id_field_, prefix_;
  std::int64_t most_, first_ = 0;
  std::shared_ptr<CorpusReader> reader_;  // root only
  std::optional<bool> numbered_;          // its rows
};

}  // namespace

ChunkSource chunks_of(const TokenDataset& documents, const Communicator& comm) {
  return [&documents, &comm, first = std::int64_t{0}](DocumentChunk& chunk) mutable {
    const std::int64_t count = std::min(chunk_documents, documents.size() - first);
    if (count == 0) return false;
    chunk.first = first;
    chunk.ids.clear();
    for (std::int64_t i = first; i < first + count; ++i) chunk.ids.emplace_back(documents.id(i));
    chunk.tokens = {count,
                    [&documents, first](std::int64_t i) { return documents.tokens(first + i); },
                    [&chunk](std::int64_t i) { return chunk.name(i); }};
    chunk.own = own_rows(count, comm.rank(), comm.size());
    chunk.texts = texts_of(documents, {first + chunk.own.first, first + chunk.own.last});
    first += count;
    return true;
  };
}

ChunkSource chunks_of(const std::filesystem::path& corpus, const CorpusOptions& options,
                      const Tokenizer& tokenizer, Communicator& comm, int threads, const Log& log,
                      std::string prefix, std::int64_t most) {
  return StreamChunks(corpus, options, tokenizer, comm, threads, log, std::move(prefix), most);
}

}  // namespace gpuhpc
