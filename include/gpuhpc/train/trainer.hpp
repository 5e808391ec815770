#pragma once
// The one Trainer: a model (the arena of its learnable parameters) learns a Task. Any number of
// ranks trains on the same global batches and ends with the same answer, up to the order of sums:
// under "ddp" each rank updates all weights, under "zero1" its share of them (gradient_sync.hpp).
// No model here has batch normalisation, the one layer whose forward pass would have to know of
// other ranks (SyncBatchNorm).
#include <ATen/core/Tensor.h>

#include <any>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/device/work_clock.hpp"
#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/checkpointer.hpp"
#include "gpuhpc/train/context.hpp"
#include "gpuhpc/train/gradient_sync.hpp"
#include "gpuhpc/train/loss_scaler.hpp"
#include "gpuhpc/train/optimizer.hpp"
#include "gpuhpc/train/options.hpp"
#include "gpuhpc/train/sampler.hpp"
#include "gpuhpc/train/schedule.hpp"
#include "gpuhpc/train/task.hpp"
#include "gpuhpc/train/watch.hpp"

namespace gpuhpc {

// Ranks that compute in different precisions scale their losses differently. Throws
// configuration_error on all ranks. Collective.
void check_one_precision(Communicator& comm, Precision precision);

// Collective. What LibTorch keeps in reserve goes back to the GPUs, and all ranks meet behind it:
// it is taken from every GPU of the process, which waits for what runs there. A sum between GPUs
// that another rank had started by then would wait for this rank in turn.
void give_back_reserves(Communicator& comm, bool on_gpu);

class Trainer {
 public:
  // Collective. Learning rates are those of the arena's groups; `course`: how long and over what,
  // where that is not the user's. When every rank has a GPU, gradients travel between them (NCCL).
  Trainer(ParameterArena& model, Task& task, const TrainOptions& options, TrainContext context,
          std::optional<Course> course = {});
  // The whole training: from the newest checkpoint, if there is one, to the context's files; with
  // the best weights where those were asked for. Throws on all ranks: `diverged` after
  // options.max_skipped skipped steps in a row; `out_of_memory` when one document alone does not
  // fit; `requeue` when somebody asked to stop; the error of the lowest rank whose loss threw. In
  // all of these the weights are those of the last update.
  TrainSummary run();
  StepReport step();
  // Collective. From the newest checkpoint, where there is one; the updates that it has seen.
  std::int64_t load_checkpoint();
  std::int64_t total_steps() const { return schedule_.total_steps; }
  // Collective. The loss per counted item over all of `items`, without gradients and dropout; the
  // same bits on any number of ranks (unless --train.micro-batch is 0, which cuts by ranks). A loss
  // over the global batch is taken of batches of its size, in the order of the items, each weighing
  // as its items do. All of one corpus.
  double mean_loss(std::span<const std::int64_t> items) {
    const LossTotal total = loss_of(items);
    return total.sum / total.count;
  }
  // Every update is made, or --train.patience is at its end.
  bool over() const;
  // One line per run: ranks x micro-batch x accumulation = global batch, rates, rule, peak rates,
  // schedule.
  std::string describe() const;

  // With model() and optimizer(): all that a checkpoint must hold.
  TrainerState state() const;
  void restore(const TrainerState& state);
  // The weights of the best validation, where --train.restore asks for them. Collective.
  void take_best();
  ParameterArena& model() { return model_; }
  Optimizer& optimizer() { return *optimizer_; }
  const GradientSync& sync() const { return sync_; }

 private:
  enum class Verdict { update, skip, again };
  struct LossTotal {
    double sum = 0, count = 0;
  };
  LossTotal loss_of(std::span<const std::int64_t> items);  // see mean_loss()
  using Pieces = std::vector<std::vector<std::int64_t>>;   // micro-batches of a global batch
  struct Share {  // what this rank computed of one global batch; after agree(): what all did
    double loss = 0, count = 0, documents = 0, tokens = 0;
    double norm = 0;                                                 // of the mean gradient
    std::vector<std::pair<WorkClock::Mark, WorkClock::Mark>> waits;  // for data
    std::vector<at::Tensor> losses;  // of micro-batches, where they were computed; read by agree()
    bool several_graphs = false;     // of a first pass
    std::exception_ptr error;
  };
  // A global batch, and the place of it in the training.
  struct Batch {
    std::vector<std::int64_t> items = {};
    std::int64_t step = 0, epoch = 0, number = 0;  // updates before it; from 0; of its epoch
    std::size_t corpus = 0;
    bool ends_epoch = false;
    Pieces pieces = {};
    Range mine = {};  // of the pieces
  };
  // The step (trainer.cpp).
  void draw();
  Batch draw_one(std::int64_t step);
  void cut(Batch& batch);
  Share accumulate(const Batch& batch);
  void take(std::int64_t piece, Share& share);
  // What the first of two passes leaves: the gradient of each row of my micro-batches (R,W),
  // undefined when some rank failed, and the rows of the first micro-batches with their graphs.
  struct FirstPass {
    at::Tensor gradients;
    std::vector<at::Tensor> rows;
  };
  FirstPass first_pass(const Batch& batch, Share& share);
  bool has_room(std::int64_t bytes);
  void keep_one_graph();
  std::int64_t my_part_of_free_memory() const;  // ranks of a host share it
  Verdict agree(Share& share, std::span<const std::int64_t> batch);
  void shrink_micro_batch(std::span<const std::int64_t> batch, const std::exception_ptr& error);
  int fewest_pieces(std::span<const std::int64_t> batch) const;
  std::int64_t largest_micro_batch(std::span<const std::int64_t> batch) const;
  std::uint64_t seed(std::int64_t micro_batch) const;
  void count(const StepReport& report);
  void end_of_step();
  void end_of_steps();
  // What surrounds the steps (trainer_setup.cpp).
  void warm_up();
  void prepare();
  bool fits(std::span<const std::int64_t> items);
  std::int64_t fastest_of(std::int64_t limit, std::int64_t foreseen, std::int64_t& trials);
  void warn_of_limits() const;
  void resume();
  void validate();
  std::int64_t items_at_once() const;
  void load_now(std::span<const std::int64_t> items);
  std::vector<CorpusItems> corpora() const;
  LossSum loss_without_graph(std::span<const std::int64_t> items, std::int64_t at_once);
  at::Tensor rows_without_graph(std::span<const std::int64_t> items, std::int64_t at_once);
  at::Tensor rows_of_all(std::span<const std::int64_t> items);
  void finish(TrainSummary& own);

  ParameterArena& model_;
  Task& task_;
  TrainOptions options_;
  TrainContext context_;
  Communicator& comm_;
  Course course_;
  std::int64_t batch_;  // documents per update, where tokens do not count
  std::unique_ptr<Communicator> between_gpus_;
  std::optional<Trace> trace_;
  GradientSync sync_;
  std::unique_ptr<Optimizer> optimizer_;
  LossScaler scaler_;
  Sampler sampler_;
  Batch batch_in_hand_;               // or the one of the last update
  std::deque<Batch> ahead_;           // drawn, not in hand yet
  std::vector<std::any> hand_;        // what was loaded of it so far
  std::optional<std::int64_t> room_;  // TrainContext's, once it is known; 0 after out of memory
  Loader loader_;
  WorkClock clock_;  // of the step in hand
  Schedule schedule_;
  RateRule rule_;
  double batch_factor_;
  SlowRankWatch slow_ranks_;
  std::optional<Checkpointer> checkpointer_;
  std::optional<MetricsLog> metrics_;  // rank 0
  TrainerState state_;                 // without the scaler's part
  WriterStatus writers_;               // of any rank, in the last step
  bool stop_ = false;
};

}  // namespace gpuhpc
