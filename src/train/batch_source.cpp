#include "gpuhpc/train/batch_source.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/random.hpp"

namespace gpuhpc {

DocumentSource::DocumentSource(std::vector<const TokenDataset*> datasets, std::int64_t max_length,
                               TextTemplate form)
    : datasets_(std::move(datasets)), max_length_(max_length), form_(std::move(form)) {
  for (const TokenDataset* dataset : datasets_) first_.push_back(first_.back() + dataset->size());
}

std::span<const std::int32_t> DocumentSource::tokens(std::int64_t document) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), document);
  const std::size_t place = static_cast<std::size_t>(after - first_.begin()) - 1;
  const auto all = datasets_[place]->tokens(document - first_[place]);
  return all.first(std::min(all.size(), static_cast<std::size_t>(max_length_ - form_.specials())));
}

std::int64_t DocumentSource::length(std::int64_t item) const {
  return std::ssize(tokens(document(item))) + form_.specials();
}

PackedIds DocumentSource::pack(std::span<const std::int64_t> items) const {
  PackedIds packed;
  packed.clear();
  for (const std::int64_t item : items) packed.add(document(item), tokens(document(item)), form_);
  return packed;
}

PackedIds NumberSource::pack(std::span<const std::int64_t> items) const {
  PackedIds packed;
  for (const std::int64_t item : items)
    packed.documents.push_back(documents_[static_cast<std::size_t>(item)]);
  return packed;
}

PackedIds SubsetSource::pack(std::span<const std::int64_t> items) const {
  std::vector<std::int64_t> theirs;
  for (const std::int64_t item : items) theirs.push_back(items_[static_cast<std::size_t>(item)]);
  return source_.pack(theirs);
}

namespace {

std::vector<std::int64_t> shuffled(std::int64_t items, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(items));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  RandomStream(seed, /*stream=*/static_cast<std::uint64_t>(epoch)).shuffle(order);
  return order;
}

}  // namespace

std::vector<std::vector<std::int64_t>> global_batches(std::int64_t items, std::int64_t batch_size,
                                                      std::uint64_t seed, std::int64_t epoch) {
  const std::vector<std::int64_t> order = shuffled(items, seed, epoch);
  std::vector<std::vector<std::int64_t>> batches;
  for (std::int64_t first = 0; first < items; first += batch_size)
    batches.emplace_back(order.begin() + first,
                         order.begin() + std::min(items, first + batch_size));
  return batches;
}

std::vector<std::vector<std::int64_t>> global_batches_by_tokens(const BatchSource& source,
                                                                std::int64_t tokens,
                                                                std::uint64_t seed,
                                                                std::int64_t epoch) {
  std::vector<std::vector<std::int64_t>> batches;
  std::int64_t used = 0;
  for (const std::int64_t item : shuffled(source.size(), seed, epoch)) {
    const std::int64_t length = source.length(item);
    if (batches.empty() || used + length > tokens) {
      batches.emplace_back();
      used = 0;
    }
    batches.back().push_back(item);
    used += length;
  }
  return batches;
}

HeldOut hold_out(std::int64_t items, double share, std::uint64_t seed) {
  // A seed of its own: the shuffles of the epochs do not follow from what is held out.
  std::vector<std::int64_t> order = shuffled(items, seed ^ 0x94d049bb133111ebULL, 0);
  const auto first = order.begin() + std::llround(share * static_cast<double>(items));
  std::sort(order.begin(), first);
  std::sort(first, order.end());
  return {{first, order.end()}, {order.begin(), first}};
}

std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch) {
  // A stream of its own: the shuffle of epoch e uses stream e.
  RandomStream stream(seed ^ 0x9e3779b97f4a7c15ULL, (static_cast<std::uint64_t>(step) << 24) +
                                                        static_cast<std::uint64_t>(micro_batch));
  return stream.next();
}

std::vector<std::vector<std::int64_t>> cut_micro_batches(const BatchSource& source,
                                                         std::span<const std::int64_t> batch,
                                                         std::int64_t micro_batch, int ranks) {
  std::vector<std::pair<std::int64_t, std::int64_t>> by_length;  // (length, item)
  for (const std::int64_t item : batch) by_length.emplace_back(source.length(item), item);
  std::ranges::sort(by_length, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  const std::int64_t items = std::ssize(batch),
                     wanted = micro_batch > 0 ? block_count(items, micro_batch) : 0;
  const std::int64_t count = std::max(wanted, std::min<std::int64_t>(ranks, items));
  std::vector<std::vector<std::int64_t>> parts(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < items; ++i) {  // there and back: 0 1 2 2 1 0 0 1 2 ..
    const std::int64_t place = i % (2 * count);
    parts[static_cast<std::size_t>(place < count ? place : 2 * count - 1 - place)].push_back(
        by_length[static_cast<std::size_t>(i)].second);
  }
  return parts;
}

}  // namespace gpuhpc
