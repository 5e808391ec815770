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

// What is learnt from each data set.
struct LearntSets {
  std::vector<PairDataset> sets;
  Mixing mixing = Mixing::proportional;
  std::vector<std::string> settings() const;
};

// The rows of one data set: those of its training file first, then those of its validation file.
struct LearntRows {
  std::vector<std::vector<TokenDataset>> files;  // the columns of each file
  std::vector<float> values;                     // what the loss learns of all rows, or none
  std::vector<std::string> prompts;              // before the texts of each column, or none
  PairLossOptions options;
};

// Rows of texts, one data set behind the other; a batch holds rows of one. Its representation of an
// item is the vectors of the item's columns side by side.
class EmbeddingTask : public Task {
 public:
  // The encoder's vectors of packed texts, (texts, W) fp32.
  using Embed = std::function<at::Tensor(const PackedIds&, DropoutSeed)>;
  // `head`: where a loss learns classes. Texts are cut to `max_length` tokens.
  EmbeddingTask(std::vector<LearntRows> sets, std::int64_t max_length, TextTemplate form,
                Embed embed, const PairClassifier* head);
  std::int64_t size() const override { return sets_.back().first.back(); }
  // The items of one file of a data set.
  Range rows(std::size_t set, std::size_t file) const {
    return {sets_[set].first[file], sets_[set].first[file + 1]};
  }
  std::int64_t cost(std::int64_t item) const override;
  // All its texts, where those of other rows are negatives.
  std::vector<std::int64_t> keys(std::int64_t item) const override;
  LossScope scope(std::span<const std::int64_t> batch) const override;
  std::any load(std::span<const std::int64_t> items,
                std::optional<std::int64_t> step) const override;
  void take(const std::any& loaded) override { packed_ = std::any_cast<PackedIds>(&loaded); }
  at::Tensor represent(std::span<const std::int64_t> items, DropoutSeed seed) override;
  LossSum batch_loss(const at::Tensor& rows, std::span<const std::int64_t> items) override;
  std::string figure_name() const override {
    const std::string& metric = sets_.front().rows.options.metric;
    return metric == "loss" ? "" : metric;
  }
  // A figure of the evaluation, or label_accuracy, of items of one file: always the same items.
  double figure(const at::Tensor& rows, std::span<const std::int64_t> items,
                Communicator& comm) override;

 private:
  struct Set {
    LearntRows rows;
    const EmbeddingLoss& loss;
    std::size_t columns;              // that are embedded: simcse has its one twice
    std::vector<std::int64_t> first;  // items of each file; the last: behind all of them
    std::size_t file_of(std::int64_t item) const;
    std::vector<float> values(std::span<const std::int64_t> items) const;
  };
  const Set& set_of(std::int64_t item) const;
  std::span<const std::int32_t> tokens(const Set& set, std::int64_t item,
                                       std::size_t column) const;  // cut
  LossRows loss_rows(const Set& set, const at::Tensor& rows,
                     std::span<const std::int64_t> items) const;
  std::vector<Set> sets_;
  std::int64_t max_length_;
  TextTemplate form_;
  Embed embed_;
  const PairClassifier* head_;
  const PackedIds* packed_ = nullptr;      // column after column
  std::optional<RowEvaluator> evaluator_;  // made at the first validation
};

}  // namespace gpuhpc
