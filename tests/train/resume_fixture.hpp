#pragma once
// Training of the tiny model with checkpoints, stopped where a test wants it.
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint_fixture.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/train/trainer.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {

// 10 steps per epoch, the last with a single document; four micro-batches per step. The last
// documents are for validation.
constexpr std::int64_t resume_documents = 73, resume_validation = 2;

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
    std::vector<double> losses, validation;     // of the whole run, as metrics.jsonl tells
    TrainerState state;
  };
  // The validation loss of step n is -sin(n): of steps 10, 20 .. 100 the best is 20.
  class Stopped final : public TinyTask {
   public:
    explicit Stopped(int ranks)
        : TinyTask(resume_documents + resume_validation, ranks, /*dropout=*/.2) {
      compute = [this](const PackedIds& batch, DropoutSeed seed) {
        if (seed) {
          asked = asked || wants_stop();
          return plain(batch, seed);
        }
        const auto count = static_cast<double>(batch.size());
        return LossSum{at::scalar_tensor(-std::sin(static_cast<double>(step)) * count, at::kDouble),
                       count};
      };
    }
    bool before_step(std::int64_t done) override {
      if (first < 0) first = done;
      step = done;
      return done != ends_at;
    }
    bool wants_stop() const { return stop_here && step + 1 == stop_at; }
    std::int64_t first = -1, step = 0, stop_at = 0, ends_at = -1;  // step: done so far
    bool asked = false, stop_here = false;
  };
  // One start of the program. `stop_at`: asked to stop on rank `stop_rank` while the micro-batches
  // of that step are computed.
  Outcome start(Communicator& comm, const std::string& strategy = "ddp", std::int64_t stop_at = 0,
                int stop_rank = 0) {
    Stopped task(comm.size());
    task.stop_at = stop_at, task.stop_here = comm.rank() == stop_rank;
    task.ends_at = task_ends_at_;
    Outcome outcome;
    ParallelOptions parallel;
    parallel.strategy = strategy;
    Course course = options_.course();
    course.restore_best = restore_best_;
    for (std::int64_t i = 0; i < resume_validation; ++i)
      course.validation_items.push_back(resume_documents + i);
    Trainer trainer(task.arena, task, options_,
                    {.comm = comm,
                     .log = log_,
                     .parallel = parallel,
                     .loader = {.workers = 2, .prefetch = 9},
                     .checkpoints = folder_,
                     .folder = folder_ / "stage",
                     .run_folder = folder_ / "run",
                     .task = {"f1", {}},
                     .stop_requested = [&] { return task.asked || task.wants_stop(); },
                     .report =
                         [&](const StepReport& report) {
                           task.step = report.step, ++outcome.steps;
                           if (report.step == 20) weights_of_step_20_ = task.compact_weights();
                           if (after_step_) after_step_(report.step);
                         }},
                    course);
    on_root(comm, [&] { create_folder(folder_ / "stage"); });
    try {
      trainer.run();
    } catch (const Error& error) {
      EXPECT_TRUE(error.on_all_ranks());
      if (error.code() != ExitCode::requeue) throw;
      EXPECT_EQ(task.step, stop_at);
      outcome.stopped = true;
    }
    comm.barrier();
    LineReader lines(folder_ / "metrics.jsonl");
    for (std::string line; lines.next(line);) {
      const Json json = Json::parse(line);
      json.contains("loss") ? outcome.losses.push_back(json.at("loss"))
                            : outcome.validation.push_back(json.at("validation_loss"));
    }
    outcome.resumed_after = task.first < 0 ? trainer.total_steps() : task.first;
    outcome.weights = task.compact_weights();
    outcome.state = trainer.state();
    return outcome;
  }
  void clear(Communicator& comm) {
    comm.barrier();
    if (owner_) std::filesystem::remove_all(folder_);
    comm.barrier();
  }
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (entry.path().filename().string().starts_with("step-"))
        names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
  TrainOptions options_ = resume_options();
  std::function<void(std::int64_t)> after_step_;
  std::int64_t task_ends_at_ = -1;         // the task itself ends the training after this step
  bool restore_best_ = false;              // at the end of a start that is not stopped
  std::vector<float> weights_of_step_20_;  // when the last start passed it
};

}  // namespace gpuhpc
