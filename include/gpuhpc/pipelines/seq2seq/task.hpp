#pragma once
// Sequence-to-sequence learning with teacher forcing. An item is a pair: its source and its target,
// each cut to its length with the end's token behind it.
#include <functional>
#include <vector>

#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/train/task.hpp"

namespace gpuhpc {

class Seq2SeqTask : public Task {
 public:
  // The sum over the targets' tokens, with its graph.
  using Loss =
      std::function<at::Tensor(const PackedIds& sources, const PackedIds& targets, DropoutSeed)>;
  // `files`: the two columns of each file. Items of the first come first.
  Seq2SeqTask(std::vector<std::vector<TokenDataset>> files, std::int64_t source_length,
              std::int64_t target_length, TextTemplate form, Loss loss);
  std::int64_t size() const override { return first_.back(); }
  std::int64_t rows(std::size_t file) const { return first_[file + 1] - first_[file]; }
  std::int64_t cost(std::int64_t item) const override;
  bool has_perplexity() const override { return true; }
  std::any load(std::span<const std::int64_t> items,
                std::optional<std::int64_t> step) const override;
  void take(const std::any& loaded) override { pairs_ = std::any_cast<Pairs>(&loaded); }
  LossSum loss(std::span<const std::int64_t> items, DropoutSeed seed) override;
  // Column 0 (source) or 1 (target), cut, without special tokens; and its text as it is.
  std::span<const std::int32_t> tokens(std::int64_t item, std::size_t column) const;
  std::string_view text(std::int64_t item, std::size_t column) const;

 private:
  const TokenDataset& column_of(std::int64_t item, std::size_t column, std::int64_t& row) const;
  std::vector<std::vector<TokenDataset>> files_;
  std::vector<std::int64_t> first_{0};
  std::int64_t lengths_[2];
  TextTemplate form_;
  Loss loss_;
  struct Pairs {
    PackedIds sources, targets;
  };
  const Pairs* pairs_ = nullptr;
};

}  // namespace gpuhpc
