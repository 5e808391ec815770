#pragma once
// Saves a Trainer when it is time, and brings it back.
#include <chrono>
#include <optional>

#include "gpuhpc/train/checkpoint.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {

class Checkpointer {
 public:
  // `options`: checkpoint_every, checkpoint_minutes, keep.
  Checkpointer(CheckpointSettings settings, const TrainOptions& options, Communicator& comm,
               Log log);
  // Sets writer_status and checkpoint; this object must outlive the Trainer that gets the hooks.
  void attach(TrainHooks& hooks);
  // Collective, before run(). The step that training goes on after; 0: it starts at the beginning.
  std::int64_t resume(Trainer& trainer);
  // Collective, after run(): the weights are those of the best validation, from its checkpoint.
  // diverged: no validation was finite.
  void restore_best(Trainer& trainer);

  std::int64_t saved() const { return saved_; }  // checkpoints started
  double blocked_seconds() const {
    return blocked_seconds_;
  }  // that training waited for copies, on this rank
  std::int64_t last_step() const {
    return store_.last_step();
  }  // of the newest checkpoint; -1: none

 private:
  WriterStatus status();
  void after_step(Trainer& trainer, const WriterStatus& anywhere, bool last);
  void save(Trainer& trainer, const TrainerState& state, std::optional<double> metric);

  CheckpointStore store_;
  std::int64_t every_;
  double minutes_;
  Communicator& comm_;
  Log log_;
  std::chrono::steady_clock::time_point last_save_ = std::chrono::steady_clock::now();
  std::size_t validations_ = 0;  // seen so far
  bool wanted_ = false;          // as soon as the one under way is complete
  std::int64_t saved_ = 0;
  double blocked_seconds_ = 0;
};

// A Trainer's position as a store keeps it, and back.
CheckpointState to_checkpoint(const TrainerState& state, std::int64_t optimizer_steps);
TrainerState from_checkpoint(const CheckpointState& checkpoint);

}  // namespace gpuhpc
