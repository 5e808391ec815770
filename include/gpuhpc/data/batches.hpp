#pragma once
// Batches of packed tokens: no padding, cut globally from the documents alone, then dealt to ranks.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/data/token_shards.hpp"

namespace gpuhpc {

// What becomes of a document longer than the model's length.
enum class LongDocuments { truncate, mean };  // first window only; vectors of all windows averaged
LongDocuments long_documents(const std::string& word);  // "truncate" | "mean"

// The windows of one document: at most max_length tokens each WITH the two specials, so max_length
// - 2 of `tokens`. truncate: one (perhaps empty) window. mean: consecutive windows that cover
// everything.
std::vector<std::span<const std::int32_t>> windows(std::span<const std::int32_t> tokens,
                                                   std::int64_t max_length, LongDocuments mode);
std::int64_t window_count(std::int64_t tokens, std::int64_t max_length, LongDocuments mode);

struct Batch {
  std::vector<std::int64_t> items;  // indices into the lengths given to make_batches
  std::int64_t tokens = 0;
};
struct BatchOptions {
  std::int64_t token_budget =
      16384;  // real tokens a batch, specials included; a longer item stands alone
  std::int64_t max_items = 1024;
};
// Length-sorted batches, longest first (ties by index): the same for any number of ranks.
std::vector<Batch> make_batches(std::span<const std::int32_t> lengths, const BatchOptions& options);
// Batches of one rank: dealt by load, largest first to the least loaded rank (ties: lowest rank);
// pure function of the batches.
std::vector<std::int64_t> batches_of_rank(std::span<const Batch> batches, int rank, int size);

// Packed sequences on the host: [cls] tokens [sep] of several items, or pairs of texts with their
// specials, one behind the other. (On a device: PackedTokens.)
struct PackedIds {
  std::vector<std::int32_t> token_ids;   // (T)
  std::vector<std::int32_t> segments;    // (T) of pairs; empty: all 0
  std::vector<std::int32_t> offsets{0};  // (B+1) sequence b is [offsets[b], offsets[b+1])
  std::vector<std::int64_t> documents;   // (B) item indices
  std::int64_t size() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t length(std::int64_t sequence) const {
    const auto b = static_cast<std::size_t>(sequence);
    return offsets[b + 1] - offsets[b];
  }
  void clear();
  void reserve(std::int64_t tokens, std::int64_t items);
  void add(std::int64_t item, std::span<const std::int32_t> tokens, std::int32_t cls,
           std::int32_t sep);
  void add_pair(std::int64_t item, std::span<const std::int32_t> tokens,
                std::span<const std::int32_t> token_segments);  // with specials

 private:
  void close(std::int64_t item);  // the tokens behind the last offset are one item
};

// Windows of a dataset as items: item -> (document, window).
class WindowedDataset {
 public:
  WindowedDataset(const TokenDataset& dataset, std::int64_t max_length, LongDocuments mode);
  std::int64_t size() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::span<const std::int32_t> lengths() const { return lengths_; }  // with specials
  std::int64_t document(std::int64_t item) const;
  std::int64_t first_item(
      std::int64_t document) const;  // its items are [first_item(d), first_item(d + 1))
  std::span<const std::int32_t> tokens(std::int64_t item) const;
  void pack(const Batch& batch, std::int32_t cls, std::int32_t sep, PackedIds& packed) const;

 private:
  const TokenDataset* dataset_;
  std::int64_t content_;  // tokens a window without specials
  std::vector<std::int32_t> lengths_;
  // Empty when every document has one window:
  std::vector<std::int64_t> first_item_;  // (documents+1)
  std::vector<std::int64_t> documents_;   // (items)
};

}  // namespace gpuhpc
