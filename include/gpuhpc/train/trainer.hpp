#pragma once
// The one Trainer. A task is three things handed in: a model (the arena of its learnable parameters), a batch source, a loss.
// Any number of ranks trains on the same global batches and ends with the same answer, up to the order of sums.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/batch_source.hpp"
#include "gpuhpc/train/optimizer.hpp"
#include "gpuhpc/train/options.hpp"
#include "gpuhpc/train/schedule.hpp"

namespace gpuhpc {

// The loss of one micro-batch: a scalar with its graph, summed (not averaged) over `count` documents (or tokens, or weights).
// The update divides the sum over all micro-batches and ranks by the sum of the counts.
struct LossSum {
  at::Tensor sum;
  double count = 0;
};
using Loss = std::function<LossSum(const PackedIds&)>;

struct StepReport {
  std::int64_t step = 0;                                            // from 1
  std::int64_t epoch = 0;                                           // from 0
  double loss = 0;                                                  // per counted item, over all ranks
  double gradient_norm = 0;                                         // of the mean gradient, before clipping
  double rate_factor = 0;                                           // of each group's own learning rate
  bool skipped = false;                                             // gradients were not finite on some rank: weights and moments untouched
  std::int64_t documents = 0, tokens = 0;                           // of this global batch
  double tokens_per_second = 0;                                     // of this step, all ranks together
  double compute_seconds = 0, sum_seconds = 0, update_seconds = 0;  // this rank: forward and backward, sum over ranks, norm and optimizer
};

struct TrainSummary {
  std::int64_t steps = 0, skipped = 0, documents = 0, tokens = 0;
  double seconds = 0;
  double compute_seconds = 0, sum_seconds = 0, update_seconds = 0;  // of this rank, as in StepReport
  double first_loss = 0, last_loss = 0;  // means of the first and last tenth of the steps (skipped ones left out)
  std::vector<double> validation;        // one value an epoch, when there is a validator
};

// All are optional, and called on every rank with the same values (seconds apart).
struct TrainHooks {
  Log log;                                        // progress line on rank 0
  std::function<void(const StepReport&)> report;  // after each step
  std::function<double()> validate;               // after each epoch
};

class Trainer {
 public:
  Trainer(ParameterArena& model, const BatchSource& source, Loss loss, const TrainOptions& options, Communicator& comm,
          TrainHooks hooks = {});
  // All epochs. Throws an Error with code `diverged` after options.max_skipped skipped steps in a row, and on all ranks the
  // error of the lowest rank whose loss threw.
  TrainSummary run();
  StepReport step();
  std::int64_t total_steps() const { return schedule_.total_steps; }
  // One line a run: documents, steps, batch, ranks, learning rates.
  std::string describe() const;

 private:
  struct Share {  // what this rank computed of one global batch
    double loss = 0, count = 0, documents = 0, tokens = 0;
    std::exception_ptr error;
  };
  std::vector<std::int64_t> next_batch();
  Share accumulate(std::span<const std::vector<std::int64_t>> micro_batches);
  void sum_gradients();
  bool agree(Share& share, double& norm);

  ParameterArena& model_;
  const BatchSource& source_;
  Loss loss_;
  TrainOptions options_;
  Communicator& comm_;
  TrainHooks hooks_;
  AdamW optimizer_;
  Schedule schedule_;
  std::vector<std::vector<std::int64_t>> batches_;  // of the present epoch
  std::size_t next_ = 0;                            // of batches_
  std::int64_t epoch_ = -1, step_ = 0, skipped_in_a_row_ = 0;
};

}  // namespace gpuhpc
