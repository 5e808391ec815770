#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/parallel.hpp"
#include "gpuhpc/retrieval/tfidf.hpp"
#include "words.hpp"

namespace gpuhpc {

void DocumentFrequencies::grow() {
  std::vector<std::uint64_t> slots(std::max<std::size_t>(1024, slots_.size() * 2));
  std::vector<std::int32_t> counts(slots.size());
  slots.swap(slots_);
  counts.swap(counts_);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == 0) continue;
    std::size_t at = slots[i] & mask;
    while (slots_[at] != 0) at = (at + 1) & mask;
    slots_[at] = slots[i];
    counts_[at] = counts[i];
  }
}

void DocumentFrequencies::count(std::uint64_t term, std::int64_t documents) {
  if (static_cast<std::size_t>(used_) * 3 >= slots_.size() * 2) grow();
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = term & mask;
  while (slots_[at] != 0 && slots_[at] != term) at = (at + 1) & mask;
  if (slots_[at] == 0) {
    slots_[at] = term;
    ++used_;
  }
  counts_[at] += static_cast<std::int32_t>(documents);
}

void DocumentFrequencies::add(std::string_view text) {
  TermHasher hasher(options_);
  auto& hashes = hasher.hash(text);
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  for (const std::uint64_t term : hashes) count(term, 1);
  ++documents_;
}

void DocumentFrequencies::add(std::span<const std::string> texts, int threads) {
  // One part of the texts a thread: sums of integers, so the split cannot show.
  std::vector<DocumentFrequencies> parts(static_cast<std::size_t>(std::max(1, threads)),
                                         DocumentFrequencies(options_));
  const auto total = std::ssize(texts);
  const auto count_of_parts = std::ssize(parts);
  parallel_for(0, count_of_parts, threads, [&](std::int64_t part, int) {
    DocumentFrequencies& mine = parts[static_cast<std::size_t>(part)];
    TermHasher hasher(options_);
    for (auto i = total * part / count_of_parts; i < total * (part + 1) / count_of_parts; ++i) {
      auto& hashes = hasher.hash(texts[static_cast<std::size_t>(i)]);
      std::sort(hashes.begin(), hashes.end());
      hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
      for (const std::uint64_t term : hashes) mine.count(term, 1);
      ++mine.documents_;
    }
  });
  for (DocumentFrequencies& part : parts) {
    documents_ += part.documents_;
    for (std::size_t i = 0; i < part.slots_.size(); ++i) {
      if (part.slots_[i] != 0) count(part.slots_[i], part.counts_[i]);
    }
    part = DocumentFrequencies(options_);  // frees its table before the next one is merged
  }
}

std::vector<DocumentFrequencies::Entry> DocumentFrequencies::entries() const {
  std::vector<Entry> all;
  all.reserve(static_cast<std::size_t>(used_));
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] != 0) all.push_back({slots_[i], counts_[i]});
  }
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.term < b.term; });
  return all;
}

std::vector<std::int64_t> DocumentFrequencies::pack() const {
  std::vector<std::int64_t> packed{documents_, used_};
  packed.reserve(2 + 2 * static_cast<std::size_t>(used_));
  for (const Entry& entry : entries()) {
    packed.push_back(static_cast<std::int64_t>(entry.term));
    packed.push_back(entry.documents);
  }
  return packed;
}

void DocumentFrequencies::merge(std::span<const std::int64_t> packed) {
  // Several pack()s one behind the other (what an all-gather gives) are all taken.
  for (std::size_t at = 0; at < packed.size();) {
    if (packed.size() - at < 2 || packed[at + 1] < 0 ||
        static_cast<std::uint64_t>(packed[at + 1]) > (packed.size() - at - 2) / 2) {
      throw internal_error("packed document frequencies end in the middle of an entry");
    }
    documents_ += packed[at];
    const auto entries = static_cast<std::size_t>(packed[at + 1]);
    at += 2;
    for (std::size_t i = 0; i < entries; ++i, at += 2)
      count(static_cast<std::uint64_t>(packed[at]), packed[at + 1]);
  }
}

}  // namespace gpuhpc
