#pragma once
// What a Trainer learns: a training job is one Task.
#include <ATen/core/Tensor.h>

#include <any>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/data/batches.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {

class Communicator;

// The loss of some items: a scalar with its graph, summed (not averaged) over `count` documents (or
// tokens, or weights). The update divides the sum over all micro-batches and ranks by the sum of
// the counts.
struct LossSum {
  at::Tensor sum;
  double count = 0;
};

// Of dropout: a function of the run's seed, the global step and the micro-batch's number in the
// global batch. None: validation, nothing is dropped.
using DropoutSeed = std::optional<std::uint64_t>;

// Over what a loss is defined.
enum class LossScope {
  item,          // each item: any micro-batches of a global batch give the same sum
  global_batch,  // all items of it together, as with in-batch negatives
};

class Task {
 public:
  virtual ~Task() = default;
  virtual std::int64_t size() const = 0;                   // items
  virtual std::int64_t cost(std::int64_t item) const = 0;  // tokens computed for it
  // None of which another item of its batch has: Course::no_duplicates.
  virtual std::vector<std::int64_t> keys(std::int64_t item) const { return {item}; }
  virtual LossScope scope(std::span<const std::int64_t> /*batch*/) const { return LossScope::item; }

  // What tells the best validation: the name of a figure, the largest of which is best; empty: the
  // least loss.
  virtual std::string figure_name() const { return ""; }
  // It, of `items`, whose represent() are `rows`, one each, on the host of every rank. Collective.
  virtual double figure(const at::Tensor& rows, std::span<const std::int64_t> items,
                        Communicator& comm);

  // The loss is the mean of -log p(token), and its exp a perplexity.
  virtual bool has_perplexity() const { return false; }
  // Rows of texts for a person to look at, of the model as it is: asked on the root after each
  // validation, for metrics.jsonl. None: null.
  virtual Json samples() { return {}; }

  // What the host must read and pack for a loss or representation of these items in the update
  // after `step` others; no step: validation. A function of these two alone: the loader's threads
  // call it before the items' turn, several at once.
  virtual std::any load(std::span<const std::int64_t> /*items*/,
                        std::optional<std::int64_t> /*step*/) const {
    return {};
  }
  // What a loss or representation of the same items follows upon: `loaded` stays until then.
  virtual void take(const std::any& /*loaded*/) {}
  // A batch of scope `item` needs this one alone.
  virtual LossSum loss(std::span<const std::int64_t> items, DropoutSeed seed);
  // A batch of scope `global_batch` needs these two: a row per item (B,W), all that its loss needs
  // to know of them; and the loss of the rows of a whole global batch, fp32. The Trainer computes
  // the rows of all micro-batches, gathers them over the ranks, takes loss and gradient of all of
  // them, and goes back through each micro-batch for its part of that gradient; those whose graphs
  // memory had no room for it computes once more, with the same seed (GradCache, Gao et al. 2021).
  // Micro-batches, ranks and a retry after out of memory never change the answer. Parameters may
  // stand in either function.
  virtual at::Tensor represent(std::span<const std::int64_t> items, DropoutSeed seed);
  virtual LossSum batch_loss(const at::Tensor& rows, std::span<const std::int64_t> items);

  // Before each step on every rank, with the number of steps done; false, alike on all ranks: the
  // training is over.
  virtual bool before_step(std::int64_t /*step*/) { return true; }
};

// A batch and what is to be learnt of its `documents`, on the host.
struct TargetedIds : PackedIds {
  std::vector<at::Tensor> targets;
};

// Items that are packed into one batch of ids; their loss is a function of the batch. Targets that
// never change are gathered with it, ahead; others the loss looks up by the batch's `documents`.
class PackedTask : public Task {
 public:
  using Loss = std::function<LossSum(const TargetedIds&, DropoutSeed)>;
  using Targets = std::function<std::vector<at::Tensor>(std::span<const std::int64_t> documents)>;
  explicit PackedTask(Loss loss, Targets targets = {})
      : loss_(std::move(loss)), targets_(std::move(targets)) {}
  virtual PackedIds pack(std::span<const std::int64_t> items) const = 0;
  std::any load(std::span<const std::int64_t> items, std::optional<std::int64_t>) const override {
    TargetedIds loaded{pack(items), {}};
    if (targets_) loaded.targets = targets_(loaded.documents);
    return loaded;
  }
  void take(const std::any& loaded) override { packed_ = std::any_cast<TargetedIds>(&loaded); }
  LossSum loss(std::span<const std::int64_t>, DropoutSeed seed) override {
    return loss_(*packed_, seed);
  }

 private:
  Loss loss_;
  Targets targets_;
  const TargetedIds* packed_ = nullptr;
};

// Documents of several datasets, numbered one dataset behind the other (real, then generated), cut
// to `max_length` tokens special tokens included. The datasets must outlive the task.
class DocumentTask : public PackedTask {
 public:
  DocumentTask(std::vector<const TokenDataset*> datasets, std::int64_t max_length,
               TextTemplate form, Loss loss, Targets targets = {});
  // Only these documents are items (those with a label, for example; perhaps none); numbers stay
  // those of the datasets.
  void select(std::vector<std::int64_t> documents) { selected_ = std::move(documents); }
  std::int64_t documents() const { return first_.back(); }
  std::int64_t size() const override { return selected_ ? std::ssize(*selected_) : documents(); }
  std::int64_t cost(std::int64_t item) const override;
  PackedIds pack(std::span<const std::int64_t> items) const override;

 private:
  std::int64_t document(std::int64_t item) const {
    return selected_ ? (*selected_)[static_cast<std::size_t>(item)] : item;
  }
  std::span<const std::int32_t> cut(std::span<const std::int32_t> tokens) const;
  // Its data set, and its place there.
  std::pair<const TokenDataset*, std::int64_t> place_of(std::int64_t document) const;
  std::vector<const TokenDataset*> datasets_;
  std::vector<std::int64_t> first_{0};
  std::optional<std::vector<std::int64_t>> selected_;
  std::int64_t max_length_;
  TextTemplate form_;
};

}  // namespace gpuhpc
