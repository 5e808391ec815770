#pragma once
// Saves a Trainer when it is time, and brings it back.
#include <chrono>
#include <cstdint>
#include <limits>

#include "gpuhpc/train/checkpoint.hpp"
#include "gpuhpc/train/options.hpp"

namespace gpuhpc {

class Trainer;

// Where a training run stands, beside weights and moments: with them it is all that a checkpoint
// must hold, however long the run. Shuffles and dropout are functions of (seed, epoch) and (seed,
// step, micro-batch): there is no generator state.
struct TrainerState {
  std::int64_t step = 0;              // global steps made, skipped ones too
  std::int64_t epoch = 0, batch = 0;  // batches drawn of that epoch
  std::int64_t batch_size = 0;        // documents, or tokens: what the two are counted in
  std::int64_t skipped_in_a_row = 0;  // steps whose gradients were not finite
  // documents computed at once, after out-of-memory or trial; 0: one micro-batch per rank
  std::int64_t micro_batch = 0;
  std::int64_t asked_micro_batch = 0;  // that the user gave when it was saved
  double loss_scale = 1;               // of the dynamic scaler (fp16)
  std::int64_t good_steps = 0;         // since the scale last changed
  std::int64_t validated_at = 0;       // step of the last validation; 0: none yet
  double metric = -std::numeric_limits<double>::infinity();  // of it: minus the loss, or the figure
  std::int64_t not_better = 0;  // validations in a row that were not the best
  double best_metric = -std::numeric_limits<double>::infinity();
  std::int64_t best_step = 0;                           // that had it first; 0: none yet
  std::int64_t skipped = 0, documents = 0, tokens = 0;  // so far
};

// Of one rank, or of any rank.
struct WriterStatus {
  bool writing = false, failed = false;
  bool due = false;  // it is time for the next checkpoint
};

class Checkpointer {
 public:
  // `options`: checkpoint_every, checkpoint_minutes, keep.
  Checkpointer(CheckpointSettings settings, const TrainOptions& options, Communicator& comm,
               Log log);
  WriterStatus status();  // of this rank
  // Collective, before the first step. The step that training goes on after; 0: at the beginning.
  std::int64_t resume(Trainer& trainer);
  // Collective, after each step and its validation; `last`: the run ends here, because somebody
  // asked or because it is over.
  void after_step(Trainer& trainer, const WriterStatus& anywhere, bool last);
  // Collective, after the last step: waits for the checkpoint under way, and throws when it failed.
  void finish() { store_.finish(); }
  // Collective, after the run: the weights are those of the best validation, from its checkpoint.
  // diverged: no validation was finite.
  void restore_best(Trainer& trainer);

 private:
  void save(Trainer& trainer, const TrainerState& state);

  CheckpointStore store_;
  std::int64_t every_;
  double minutes_;
  Communicator& comm_;
  Log log_;
  std::chrono::steady_clock::time_point last_save_ = std::chrono::steady_clock::now();
  bool wanted_ = false;  // as soon as the one under way is complete
};

// A Trainer's position as a store keeps it, and back.
CheckpointState to_checkpoint(const TrainerState& state, std::int64_t optimizer_steps);
TrainerState from_checkpoint(const CheckpointState& checkpoint);

}  // namespace gpuhpc
