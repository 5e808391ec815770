#pragma once
// Documents cut into windows, and packed one behind the other: no padding.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {

// What becomes of a document longer than the model's length.
enum class LongDocuments { truncate, mean };  // first window only; vectors of all windows averaged
LongDocuments long_documents(const std::string& word);  // "truncate" | "mean"

// The windows of one document: at most `content` tokens each, without special tokens. truncate: one
// (perhaps empty) window. mean: consecutive windows that cover everything.
std::vector<std::span<const std::int32_t>> windows(std::span<const std::int32_t> tokens,
                                                   std::int64_t content, LongDocuments mode);
std::int64_t window_count(std::int64_t tokens, std::int64_t content, LongDocuments mode);

// Packed sequences on the host: texts or pairs of texts with their special tokens, one behind the
// other. (On a device: PackedTokens.)
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
  void add(std::int64_t item, std::span<const std::int32_t> tokens, const TextTemplate& form);
  void add_pair(std::int64_t item, std::span<const std::int32_t> tokens,
                std::span<const std::int32_t> token_segments);  // with specials

 private:
  void close(std::int64_t item);  // the tokens behind the last offset are one item
};

}  // namespace gpuhpc
