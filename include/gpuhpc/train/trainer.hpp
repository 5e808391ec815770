#pragma once
// The one Trainer. A task is three things handed in: a model (the arena of its learnable
// parameters), a batch source, a loss. Any number of ranks trains on the same global batches and
// ends with the same answer, up to the order of sums: under "ddp" each rank updates all weights,
// under "zero1" its share of them (gradient_sync.hpp). No model here has batch normalisation, the
// one layer whose forward pass would have to know of other ranks (SyncBatchNorm).
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/comm/options.hpp"
#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/batch_source.hpp"
#include "gpuhpc/train/gradient_sync.hpp"
#include "gpuhpc/train/loss_scaler.hpp"
#include "gpuhpc/train/optimizer.hpp"
#include "gpuhpc/train/options.hpp"
#include "gpuhpc/train/profile.hpp"
#include "gpuhpc/train/schedule.hpp"
#include "gpuhpc/train/trainer_state.hpp"

namespace gpuhpc {

// The loss of one micro-batch: a scalar with its graph, summed (not averaged) over `count`
// documents (or tokens, or weights). The update divides the sum over all micro-batches and ranks by
// the sum of the counts.
struct LossSum {
  at::Tensor sum;
  double count = 0;
};
// `seed` is that of dropout: a function of the run's seed, the global step and the micro-batch's
// number in the global batch. Called without gradients (validation), it drops nothing.
using Loss = std::function<LossSum(const PackedIds&, std::uint64_t seed)>;

struct StepReport {
  std::int64_t step = 0;     // from 1
  std::int64_t epoch = 0;    // from 0
  double loss = 0;           // per counted item, over all ranks
  double gradient_norm = 0;  // of the mean gradient, before clipping
  double rate_factor = 0;    // of each group's own learning rate
  bool skipped = false;  // gradients were not finite on some rank: weights and moments untouched
  std::int64_t documents = 0, tokens = 0;  // of this global batch
  std::int64_t micro_batch = 0;            // documents computed at once, at most
  double loss_scale = 1;                   // that this step's gradients were computed with
  double tokens_per_second = 0;            // of this step, all ranks together
  double own_tokens = 0;                   // that this rank computed in it
  // This rank; the four parts add up to the step. Data: until its micro-batches were there.
  // Compute: forward and backward (buckets leave meanwhile). Sum: the rest of the sum over ranks.
  // Update: agreement, optimizer, gathering of parameters.
  double step_seconds = 0, data_seconds = 0, compute_seconds = 0, sum_seconds = 0,
         update_seconds = 0;
};

struct TrainSummary {
  std::int64_t steps = 0, skipped = 0, documents = 0, tokens = 0;
  // Of this rank in this process, so a resumed run counts its own part. The parts as in StepReport;
  // the five of them add up to `seconds`.
  std::int64_t own_steps = 0, own_tokens = 0;
  double seconds = 0, data_seconds = 0, compute_seconds = 0, sum_seconds = 0, update_seconds = 0;
  double other_seconds = 0;  // outside of steps: validation, reports, copies for checkpoints
  double first_loss = 0,
         last_loss = 0;  // means of the first and last tenth of the steps (skipped ones left out)
  std::vector<double> validation;  // one value an epoch, when there is a validator
};

// Whoever writes checkpoints beside the training; of one rank, or of any rank.
struct WriterStatus {
  bool writing = false, failed = false;
  bool due = false;  // it is time for the next one
};

class Trainer;

// All are optional. Unless it says otherwise: called on every rank with the same values (seconds
// apart).
struct TrainHooks {
  Log log = {};                                        // progress line on rank 0
  std::function<void(const StepReport&)> report = {};  // after each step
  std::function<double(Trainer&)> validate = {};       // after each epoch; larger is better
  // Before each step, with the number of steps done; false, and run() ends there as if it were
  // over.
  std::function<bool(Trainer&, std::int64_t step)> before_step = {};
  // Asked in each step on every rank; one yes, and all ranks leave run() after that step with exit
  // code `requeue`.
  std::function<bool()> stop_requested = {};
  // Asked in each step on every rank; `checkpoint` then hears what holds for any of them.
  std::function<WriterStatus()> writer_status = {};
  // After each step and its validation; `last`: the run ends here, because somebody asked or
  // because it is over.
  std::function<void(Trainer&, const WriterStatus& anywhere, bool last)> checkpoint = {};
  Trace* trace =
      nullptr;  // records the steps that it was made for, and is written as soon as they are over
};

class Trainer {
 public:
  // `device_comm` (NCCL) carries gradients that lie in device memory; without one they travel
  // through the host.
  Trainer(ParameterArena& model, const BatchSource& source, Loss loss, const TrainOptions& options,
          const ParallelOptions& parallel, Communicator& comm, TrainHooks hooks = {},
          Communicator* device_comm = nullptr);
  // All epochs (of a restored run: the rest). Throws on all ranks: `diverged` after
  // options.max_skipped skipped steps in a row; `out_of_memory` when one document alone does not
  // fit; `requeue` when somebody asked to stop; the error of the lowest rank whose loss threw. In
  // all of these the weights are those of the last update.
  TrainSummary run();
  StepReport step();
  std::int64_t total_steps() const { return schedule_.total_steps; }
  // Collective. The loss per counted item over all of `items`, without gradients and dropout; the
  // same bits on any number of ranks (unless --train.micro-batch is 0, which cuts by ranks).
  double mean_loss(const BatchSource& items);
  // One line a run: ranks x micro-batch x accumulation = global batch, rates, rule, peak rates,
  // schedule.
  std::string describe() const;

  // With model() and optimizer(): all that a checkpoint must hold.
  TrainerState state() const;
  void restore(const TrainerState& state);
  ParameterArena& model() { return model_; }
  Optimizer& optimizer() { return *optimizer_; }
  const GradientSync& sync() const { return sync_; }

 private:
  enum class Verdict { update, skip, again };
  struct Share {  // what this rank computed of one global batch; after agree(): what all did
    double loss = 0, count = 0, documents = 0, tokens = 0;
    double norm = 0;  // of the mean gradient
    double data_seconds = 0;
    std::exception_ptr error;
  };
  void prepare();
  std::vector<std::vector<std::int64_t>> batches_of(std::int64_t epoch) const;
  std::vector<std::int64_t> next_batch();
  Share accumulate(std::span<const std::int64_t> batch);
  Verdict agree(Share& share, std::span<const std::int64_t> batch);
  void shrink_micro_batch(std::span<const std::int64_t> batch, const std::exception_ptr& error);
  int fewest_pieces(std::span<const std::int64_t> batch) const;
  std::int64_t largest_micro_batch(std::span<const std::int64_t> batch) const;
  bool fits(std::span<const std::int64_t> items);
  void count(const StepReport& report);
  void end_of_step();
  TrainSummary summarise(TrainSummary own) const;  // `own` filled up with what all ranks share

  ParameterArena& model_;
  const BatchSource& source_;
  Loss loss_;
  TrainOptions options_;
  ParallelOptions parallel_;
  Communicator& comm_;
  TrainHooks hooks_;
  GradientSync sync_;
  std::unique_ptr<Optimizer> optimizer_;
  LossScaler scaler_;
  Schedule schedule_;
  RateRule rule_ = RateRule::none;
  double documents_a_step_ = 0, batch_factor_ = 1;
  std::vector<std::vector<std::int64_t>> batches_;  // of the present epoch
  TrainerState state_;                              // without the scaler's part
  WriterStatus writers_;                            // of any rank, in the last step
  bool stop_ = false;
};

}  // namespace gpuhpc
