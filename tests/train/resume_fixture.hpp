#pragma once
// Training of the tiny model with checkpoints, stopped where a test wants it.
#include <gtest/gtest.h>

#include <optional>

#include "checkpoint_fixture.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/train/checkpointer.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {

// 10 steps an epoch, the last with a single document; four micro-batches a step.
constexpr std::int64_t resume_documents = 73;

inline TrainOptions resume_options() {
  TrainOptions options = tiny_options();
  options.epochs = 10;
  options.batch = 8;
  options.micro_batch = 2;
  options.checkpoint_minutes = 0;
  return options;
}

class Resume : public CheckpointFolder {
 protected:
  struct Outcome {
    bool stopped = false;
    std::int64_t resumed_after = 0, steps = 0;  // of this start
    std::vector<float> weights;                 // without padding: any number of ranks
    std::vector<double> losses, validation;     // of the whole run
    double last_loss = 0;
  };
  // One start of the program. `stop_at`: asked to stop on rank `stop_rank` while the micro-batches
  // of that step are computed.
  Outcome start(Communicator& comm, const std::string& strategy = "ddp", std::int64_t stop_at = 0,
                int stop_rank = 0) {
    TinyTask task(resume_documents, comm.size());
    Outcome outcome;
    std::int64_t step = 0;
    bool asked = false;
    const Loss plain = task.loss(/*dropout=*/.2);
    const Loss loss = [&](const PackedIds& batch, std::uint64_t seed) {
      asked = asked || (step + 1 == stop_at && comm.rank() == stop_rank);
      return plain(batch, seed);
    };
    TrainHooks hooks;
    hooks.report = [&](const StepReport& report) {
      step = report.step, ++outcome.steps;
      if (after_step_) after_step_(step);
    };
    hooks.validate = [&](Trainer&) {
      if (step == 20) weights_of_step_20_ = compact(task);
      return std::sin(static_cast<double>(step));
    };
    hooks.stop_requested = [&] {
      return asked || (step + 1 == stop_at && comm.rank() == stop_rank);
    };
    Checkpointer checkpointer({folder_, {"f1", {}}, options_.keep}, options_, comm, log_);
    checkpointer.attach(hooks);
    ParallelOptions parallel;
    parallel.strategy = strategy;
    Trainer trainer(task.arena, task.source, loss, options_, parallel, comm, hooks);
    outcome.resumed_after = step = checkpointer.resume(trainer);
    try {
      outcome.last_loss = trainer.run().last_loss;
      if (restore_best_) checkpointer.restore_best(trainer);
    } catch (const Error& error) {
      EXPECT_TRUE(error.on_all_ranks());
      if (error.code() != ExitCode::requeue) throw;
      EXPECT_EQ(step, stop_at);
      outcome.stopped = true;
    }
    outcome.weights = compact(task);
    outcome.losses = trainer.state().losses;
    outcome.validation = trainer.state().validation;
    return outcome;
  }
  static std::vector<float> compact(TinyTask& task) {
    std::vector<float> weights;
    const std::vector<float> all = task.weights();
    for (const auto& entry : task.arena.entries())
      weights.insert(weights.end(), all.begin() + entry.range.first,
                     all.begin() + entry.range.last);
    return weights;
  }
  void clear(Communicator& comm) {
    comm.barrier();
    if (owner_) std::filesystem::remove_all(folder_);
    comm.barrier();
  }
  TrainOptions options_ = resume_options();
  std::function<void(std::int64_t)> after_step_;
  bool restore_best_ = false;              // at the end of a start that is not stopped
  std::vector<float> weights_of_step_20_;  // when the last start passed it: of sin(10), sin(20) ..
                                           // sin(100) the best
};

}  // namespace gpuhpc
