#pragma once
// What surrounds a training, and what it tells.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/comm/options.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/train/loader.hpp"
#include "gpuhpc/train/profile.hpp"

namespace gpuhpc {

// What the checkpoints of a folder belong to; those of another task are refused.
struct CheckpointTask {
  CheckpointTask() = default;  // constructors: GCC 12 loses track of an aggregate within another
  CheckpointTask(std::string hash, std::vector<std::string> values)
      : fingerprint(std::move(hash)), options(std::move(values)) {}
  std::string fingerprint;           // of option values, input files and earlier stages
  std::vector<std::string> options;  // "section.key = value": named when they differ
};

struct StepReport {
  std::int64_t step = 0;                // from 1
  std::int64_t epoch = 0;               // from 0
  std::string corpus = {};              // of this batch, where there are several
  double loss = 0;                      // per counted item, over all ranks
  double gradient_norm = 0;             // of the mean gradient, before clipping
  double learning_rate_multiplier = 0;  // of each group's own learning rate
  bool skipped = false;  // gradients were not finite on some rank: weights and moments untouched
  std::int64_t documents = 0, tokens = 0;  // of this global batch
  std::int64_t micro_batch = 0;            // documents computed at once, at most
  double loss_scale = 1;                   // that this step's gradients were computed with
  double tokens_per_second = 0;            // of this step, all ranks together
  double own_tokens = 0;                   // that this rank computed in it
  // This rank; the four parts add up to the step. Data: until its micro-batches were there.
  // Compute: forward and backward (buckets leave meanwhile). Exposed communication: the rest of
  // the sum over ranks. Update: agreement, optimizer, gathering of parameters.
  double step_seconds = 0, data_seconds = 0, compute_seconds = 0, exposed_communication_seconds = 0,
         update_seconds = 0;
};

struct TrainSummary {
  std::int64_t steps = 0, skipped = 0, documents = 0, tokens = 0;
  // Of this rank in this process, so a resumed run counts its own part. The parts as in StepReport;
  // the five of them add up to `seconds`.
  std::int64_t own_steps = 0, own_tokens = 0;
  double seconds = 0, data_seconds = 0, compute_seconds = 0, exposed_communication_seconds = 0,
         update_seconds = 0;
  double other_seconds = 0;  // outside of steps: validation, reports, copies for checkpoints
};

// What somebody who knows the model's shapes foresees of --train.micro-batch auto, in documents at
// once; 0: nobody does. The trials begin there.
struct ForeseenBatch {
  std::int64_t fits = 0;     // the most that memory holds
  std::int64_t fastest = 0;  // of those, on processors
};

struct TrainContext {
  Communicator& comm;
  Log log = {};  // progress line and sentences, on rank 0
  DeviceChoice device = {};
  ParallelOptions parallel = {};
  ProfileOptions profile = {};
  LoaderOptions loader = {};
  // Folders; where one is empty, nothing of its kind is written.
  std::filesystem::path checkpoints = {};  // outlives a run that is stopped or killed
  std::filesystem::path folder = {};  // metrics.jsonl (first beside the checkpoints), ranks.jsonl
  std::filesystem::path run_folder = {};  // events/`stage`, trace/`stage`
  std::string stage = {};
  CheckpointTask task = {};  // what a checkpoint belongs to
  ForeseenBatch foreseen = {};
  // Bytes for the graphs that a first pass of GradCache keeps beside one (Task::represent); where
  // nothing is said, half of what is free.
  std::optional<std::int64_t> room_for_graphs = {};
  // Makes what carries sums between GPUs; empty: NCCL, where every rank has one.
  std::function<std::unique_ptr<Communicator>(Communicator&)> between_gpus = {};
  // Asked in each step on every rank; one yes, and all ranks leave run() after that step with exit
  // code `requeue`.
  std::function<bool()> stop_requested = {};
  std::function<void(const StepReport&)> report = {};  // after each step, on every rank
};

}  // namespace gpuhpc
