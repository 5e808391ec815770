#pragma once
// What train-embedding learns: rows of texts whose vectors are compared.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/pipelines/embedding/evaluator.hpp"
#include "gpuhpc/pipelines/embedding/losses.hpp"
#include "gpuhpc/train/task.hpp"

namespace gpuhpc {

// Rows of texts; those of the training file first, then those of the validation file. Its
// representation of an item is the vectors of the item's columns side by side.
class EmbeddingTask : public Task {
 public:
  // The encoder's vectors of packed texts, (texts, W) fp32.
  using Embed = std::function<at::Tensor(const PackedIds&, DropoutSeed)>;
  // `files`: the columns of each file; `values`: what the loss learns of all their rows, or none;
  // `head`: where that are classes. Texts are cut to `max_length` tokens.
  EmbeddingTask(std::vector<std::vector<TokenDataset>> files, std::vector<float> values,
                PairLossOptions options, std::int64_t max_length, TextTemplate form, Embed embed,
                const PairClassifier* head);
  std::int64_t size() const override { return first_.back(); }
  std::int64_t rows(std::size_t file) const { return first_[file + 1] - first_[file]; }
  std::int64_t cost(std::int64_t item) const override;
  std::int64_t key(std::int64_t item) const override;  // the first text
  LossScope scope() const override;
  void load(std::span<const std::int64_t> items) override;
  at::Tensor represent(std::span<const std::int64_t> items, DropoutSeed seed) override;
  LossSum batch_loss(const at::Tensor& rows, std::span<const std::int64_t> items) override;
  std::string figure_name() const override {
    return options_.metric == "loss" ? "" : options_.metric;
  }
  // A figure of the evaluation, or label_accuracy, of items of one file: always the same items.
  double figure(const at::Tensor& rows, std::span<const std::int64_t> items,
                Communicator& comm) override;

 private:
  std::span<const std::int32_t> tokens(std::int64_t item, std::size_t column) const;  // cut
  std::size_t file_of(std::int64_t item) const;
  std::vector<float> values(std::span<const std::int64_t> items) const;
  LossRows loss_rows(const at::Tensor& rows, std::span<const std::int64_t> items) const;
  std::vector<std::vector<TokenDataset>> files_;
  std::vector<std::int64_t> first_{0};
  std::vector<float> values_;  // as many of each row
  PairLossOptions options_;
  const EmbeddingLoss& loss_;
  std::vector<std::int64_t> dimensions_;
  std::int64_t max_length_;
  TextTemplate form_;
  Embed embed_;
  std::size_t columns_;  // that are embedded: simcse has its one twice
  std::size_t values_of_row_;
  const PairClassifier* head_;
  PackedIds packed_;                       // column after column
  std::optional<RowEvaluator> evaluator_;  // made at the first validation
};

}  // namespace gpuhpc
