#pragma once
// What a Trainer learns from: items known by number and length, packed on demand; and the global
// batches cut from them.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpuhpc/data/batches.hpp"
#include "gpuhpc/data/token_shards.hpp"

namespace gpuhpc {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::int64_t size() const = 0;  // items
  virtual std::int64_t length(
      std::int64_t item) const = 0;  // tokens that the model computes for it
  // The items as one packed batch; `documents` of the result holds what the loss looks targets up
  // by.
  virtual PackedIds pack(std::span<const std::int64_t> items) const = 0;
};

// Documents of several datasets, numbered one dataset behind the other (real, then generated), cut
// to `max_length` tokens with the special ones. The datasets must outlive the source.
class DocumentSource final : public BatchSource {
 public:
  DocumentSource(std::vector<const TokenDataset*> datasets, std::int64_t max_length,
                 TextTemplate form);
  // Only these documents are items (those with a label, for example; perhaps none); numbers stay
  // those of the datasets.
  void select(std::vector<std::int64_t> documents) { selected_ = std::move(documents); }
  std::int64_t documents() const { return first_.back(); }
  std::int64_t size() const override { return selected_ ? std::ssize(*selected_) : documents(); }
  std::int64_t length(std::int64_t item) const override;
  PackedIds pack(std::span<const std::int64_t> items) const override;

 private:
  std::int64_t document(std::int64_t item) const {
    return selected_ ? (*selected_)[static_cast<std::size_t>(item)] : item;
  }
  std::span<const std::int32_t> tokens(std::int64_t document) const;  // cut, without specials
  std::vector<const TokenDataset*> datasets_;
  std::vector<std::int64_t> first_{0};
  std::optional<std::vector<std::int64_t>> selected_;
  std::int64_t max_length_;
  TextTemplate form_;
};

// Documents whose vectors are known already (a frozen encoder): nothing but their numbers.
class NumberSource final : public BatchSource {
 public:
  explicit NumberSource(std::vector<std::int64_t> documents) : documents_(std::move(documents)) {}
  std::int64_t size() const override { return std::ssize(documents_); }
  std::int64_t length(std::int64_t) const override { return 1; }
  PackedIds pack(std::span<const std::int64_t> items) const override;

 private:
  std::vector<std::int64_t> documents_;
};

// Some items of another source, which must outlive it.
class SubsetSource final : public BatchSource {
 public:
  SubsetSource(const BatchSource& source, std::vector<std::int64_t> items)
      : source_(source), items_(std::move(items)) {}
  std::int64_t size() const override { return std::ssize(items_); }
  std::int64_t length(std::int64_t item) const override {
    return source_.length(items_[static_cast<std::size_t>(item)]);
  }
  PackedIds pack(std::span<const std::int64_t> items) const override;

 private:
  const BatchSource& source_;
  std::vector<std::int64_t> items_;
};

// The items that are learnt from and the `share` of all (rounded) that is only looked at: a draw by
// `seed` alone, both in ascending order.
struct HeldOut {
  std::vector<std::int64_t> learnt, validation;
};
HeldOut hold_out(std::int64_t items, double share, std::uint64_t seed);

// The global batches of one epoch: a shuffle by (seed, epoch) alone, cut into `batch_size` items;
// the last one may be short.
std::vector<std::vector<std::int64_t>> global_batches(std::int64_t items, std::int64_t batch_size,
                                                      std::uint64_t seed, std::int64_t epoch);

// The same cut by tokens: as many items a batch as have at most `tokens` together; a longer item
// stands alone.
std::vector<std::vector<std::int64_t>> global_batches_by_tokens(const BatchSource& source,
                                                                std::int64_t tokens,
                                                                std::uint64_t seed,
                                                                std::int64_t epoch);

// The micro-batches of one global batch, at most `micro_batch` items each, of about equal work: cut
// from the batch alone, so that each gives the same gradient whoever computes it. Only when they
// would be fewer than `ranks` (or when `micro_batch` is 0) are there as many as ranks.
std::vector<std::vector<std::int64_t>> cut_micro_batches(const BatchSource& source,
                                                         std::span<const std::int64_t> batch,
                                                         std::int64_t micro_batch, int ranks);

// The seed of dropout in one micro-batch: of the run's seed, the global step and the micro-batch's
// number in the global batch. It does not know who computes it, and nothing of a generator has to
// be saved.
std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch);

}  // namespace gpuhpc
