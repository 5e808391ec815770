#include <algorithm>

#include "gpuhpc/base/parallel.hpp"
#include "gpuhpc/infer/encode.hpp"

namespace gpuhpc {

TokenSource token_source(const TokenDataset& dataset) {
  return {dataset.size(), [&dataset](std::int64_t document) { return dataset.tokens(document); }};
}

TokenSource token_source(const std::vector<std::vector<std::int32_t>>& documents) {
  return {std::ssize(documents), [&documents](std::int64_t document) {
            return std::span<const std::int32_t>(documents[static_cast<std::size_t>(document)]);
          }};
}

std::vector<std::vector<std::int32_t>> tokenize(const Tokenizer& tokenizer,
                                                std::span<const std::string> texts, int threads) {
  std::vector<std::vector<std::int32_t>> all(texts.size());
  std::vector<std::unique_ptr<TokenizerScratch>> scratches(
      static_cast<std::size_t>(std::max(threads, 1)));
  constexpr std::int64_t kBlock = 64;
  parallel_for(0, block_count(std::ssize(texts), kBlock), std::max(threads, 1),
               [&](std::int64_t block, int thread) {
                 auto& scratch = scratches[static_cast<std::size_t>(thread)];
                 if (!scratch) scratch = tokenizer.make_scratch();
                 const Range items = block_items(block, std::ssize(texts), kBlock);
                 for (std::int64_t i = items.first; i < items.last; ++i)
                   tokenizer.encode_with(*scratch, texts[static_cast<std::size_t>(i)],
                                         all[static_cast<std::size_t>(i)]);
               });
  return all;
}

std::vector<EncodeBatch> cut_batches(std::span<const std::int64_t> lengths, std::int64_t budget,
                                     std::int64_t hidden_size) {
  std::vector<EncodeBatch> batches;
  std::int64_t tokens = 0;
  for (std::int64_t d = 0; d < std::ssize(lengths); ++d) {
    const std::int64_t length = lengths[static_cast<std::size_t>(d)];
    if (batches.empty() || tokens + length > budget) {
      batches.push_back({d, d, 0});
      tokens = 0;
    }
    tokens += length;
    batches.back().last = d + 1;
    // A token costs 24 H^2 multiply-adds in the linears and 4 H in attention for every token of its
    // document.
    const double s = static_cast<double>(length);
    batches.back().work += s * (1.0 + s / (6.0 * static_cast<double>(hidden_size)));
  }
  return batches;
}

Range share_of_rank(std::span<const EncodeBatch> batches, int rank, int size) {
  double total = 0;
  for (const EncodeBatch& batch : batches) total += batch.work;
  // A batch goes to the rank in whose share of the work its middle lies.
  Range share{std::ssize(batches), std::ssize(batches)};
  double before = 0;
  bool begun = false;
  for (std::int64_t b = 0; b < std::ssize(batches); ++b) {
    const double work = batches[static_cast<std::size_t>(b)].work, middle = before + work / 2;
    const int owner = total > 0 ? std::min(size - 1, static_cast<int>(middle / total * size)) : 0;
    if (owner >= rank && !begun) share.first = b, begun = true;
    if (owner > rank) {
      share.last = b;
      break;
    }
    before += work;
  }
  return share;
}

}  // namespace gpuhpc
