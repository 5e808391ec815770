#include "gpuhpc/data/batches.hpp"

#include <algorithm>
#include <numeric>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t specials = 2;  // [CLS] and [SEP]

}  // namespace

LongDocuments long_documents(const std::string& word) {
  if (word == "truncate") return LongDocuments::truncate;
  if (word == "mean") return LongDocuments::mean;
  throw usage_error("`{}` is not one of truncate, mean", word);
}

std::int64_t window_count(std::int64_t tokens, std::int64_t max_length, LongDocuments mode) {
  const std::int64_t content = max_length - specials;
  if (content < 1)
    throw internal_error("windows of {} tokens hold nothing beside the specials", max_length);
  return mode == LongDocuments::truncate
             ? 1
             : std::max<std::int64_t>(1, (tokens + content - 1) / content);
}

std::vector<std::span<const std::int32_t>> windows(std::span<const std::int32_t> tokens,
                                                   std::int64_t max_length, LongDocuments mode) {
  const auto content = static_cast<std::size_t>(max_length - specials);
  std::vector<std::span<const std::int32_t>> all;
  for (std::int64_t i = 0; i < window_count(std::ssize(tokens), max_length, mode); ++i) {
    const std::size_t first = static_cast<std::size_t>(i) * content;
    all.push_back(tokens.subspan(first, std::min(content, tokens.size() - first)));
  }
  return all;
}

std::vector<Batch> make_batches(std::span<const std::int32_t> lengths,
                                const BatchOptions& options) {
  std::vector<std::int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return lengths[static_cast<std::size_t>(a)] > lengths[static_cast<std::size_t>(b)];
  });
  std::vector<Batch> batches;
  for (const std::int64_t item : order) {
    const std::int64_t length = lengths[static_cast<std::size_t>(item)];
    const bool full = batches.empty() || batches.back().tokens + length > options.token_budget ||
                      std::ssize(batches.back().items) >= options.max_items;
    if (full) batches.emplace_back();
    batches.back().items.push_back(item);
    batches.back().tokens += length;
  }
  return batches;
}

std::vector<std::int64_t> batches_of_rank(std::span<const Batch> batches, int rank, int size) {
  std::vector<std::int64_t> order(batches.size()), load(static_cast<std::size_t>(size)), mine;
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return batches[static_cast<std::size_t>(a)].tokens >
           batches[static_cast<std::size_t>(b)].tokens;
  });
  for (const std::int64_t batch : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += batches[static_cast<std::size_t>(batch)].tokens;
    if (least - load.begin() == rank) mine.push_back(batch);
  }
  return mine;
}

void PackedIds::clear() {
  token_ids.clear();
  segments.clear();
  documents.clear();
  offsets.assign(1, 0);
}

void PackedIds::reserve(std::int64_t tokens, std::int64_t items) {
  token_ids.reserve(static_cast<std::size_t>(tokens));
  documents.reserve(static_cast<std::size_t>(items));
  offsets.reserve(static_cast<std::size_t>(items) + 1);
}

void PackedIds::add(std::int64_t item, std::span<const std::int32_t> tokens, std::int32_t cls,
                    std::int32_t sep) {
  token_ids.push_back(cls);
  token_ids.insert(token_ids.end(), tokens.begin(), tokens.end());
  token_ids.push_back(sep);
  close(item);
}

void PackedIds::add_pair(std::int64_t item, std::span<const std::int32_t> tokens,
                         std::span<const std::int32_t> token_segments) {
  token_ids.insert(token_ids.end(), tokens.begin(), tokens.end());
  segments.insert(segments.end(), token_segments.begin(), token_segments.end());
  close(item);
}

void PackedIds::close(std::int64_t item) {
  offsets.push_back(static_cast<std::int32_t>(token_ids.size()));
  documents.push_back(item);
}

WindowedDataset::WindowedDataset(const TokenDataset& dataset, std::int64_t max_length,
                                 LongDocuments mode)
    : dataset_(&dataset), content_(max_length - specials) {
  lengths_.reserve(static_cast<std::size_t>(dataset.size()));
  first_item_.assign(1, 0);
  for (std::int64_t document = 0; document < dataset.size(); ++document) {
    const std::int64_t tokens = dataset.length(document),
                       count = window_count(tokens, max_length, mode);
    for (std::int64_t i = 0; i < count; ++i) {
      lengths_.push_back(
          static_cast<std::int32_t>(std::min(content_, tokens - i * content_) + specials));
      documents_.push_back(document);
    }
    first_item_.push_back(size());
  }
  if (size() == dataset.size()) first_item_ = documents_ = {};
}

std::int64_t WindowedDataset::document(std::int64_t item) const {
  return documents_.empty() ? item : documents_[static_cast<std::size_t>(item)];
}

std::int64_t WindowedDataset::first_item(std::int64_t document) const {
  return first_item_.empty() ? document : first_item_[static_cast<std::size_t>(document)];
}

std::span<const std::int32_t> WindowedDataset::tokens(std::int64_t item) const {
  const std::int64_t owner = document(item), window = item - first_item(owner);
  return dataset_->tokens(owner).subspan(
      static_cast<std::size_t>(window * content_),
      static_cast<std::size_t>(lengths_[static_cast<std::size_t>(item)] - specials));
}

void WindowedDataset::pack(const Batch& batch, std::int32_t cls, std::int32_t sep,
                           PackedIds& packed) const {
  packed.clear();
  packed.reserve(batch.tokens, std::ssize(batch.items));
  for (const std::int64_t item : batch.items) packed.add(item, tokens(item), cls, sep);
}

}  // namespace gpuhpc
