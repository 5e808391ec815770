#pragma once
// A training as room plan sees it.
#include <cstdint>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/pipelines/options.hpp"
#include "gpuhpc/plan/plan.hpp"
#include "gpuhpc/train/context.hpp"

namespace gpuhpc {

// What memory and time depend on beside model and batch, but for what one job alone has.
PlannedWork planned_training(PlanJob job, const PlannedModel& model, const FineTuning& training,
                             bool cuda, int ranks);

// This machine's processor as one more kind of device: its products at what the kernels of its
// instruction set reach, its memory less what the system keeps.
GpuKind this_processor(int threads);
// Percent of --device.memory-limit that a plan fills: on a GPU it covers gaps between blocks, too,
// on a processor what tensors hold, which plans foresee within 1%.
constexpr std::int64_t percent_of_limit(bool cuda) { return cuda ? 93 : 98; }

// What the plan foresees of --train.micro-batch auto on this rank's device, where all items are as
// long as they may be. Nothing where it is given, where --train.batch-tokens counts, and on a GPU
// that the plan's table does not have.
ForeseenBatch foreseen_batch(const PlannedModel& model, const PlannedWork& work,
                             const FineTuning& training, const DeviceChoice& device,
                             std::int64_t length, std::int64_t target_length = 0);

// The same of a student of `run`.
ForeseenBatch foreseen_student(const EncoderConfig& encoder, const FineTuning& training,
                               const DeviceChoice& device, int ranks, std::int64_t length);

// Says about what a rank's tensors take at --train.micro-batch, where all items are as long as they
// may be. Nothing where the micro-batch is found by trial.
void log_memory(const Log& log, const PlannedModel& model, const PlannedWork& work,
                const FineTuning& training, std::int64_t length, std::int64_t target_length = 0);

}  // namespace gpuhpc
