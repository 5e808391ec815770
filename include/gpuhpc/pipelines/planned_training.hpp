#pragma once
// A training as room plan sees it.
#include <cstdint>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/pipelines/options.hpp"
#include "gpuhpc/plan/memory.hpp"

namespace gpuhpc {

// What memory and time depend on beside model and batch, but for what one job alone has.
PlannedWork planned_training(PlanJob job, const PlannedModel& model, const FineTuning& training,
                             bool cuda, int ranks);

// Says about what a rank's tensors take at --train.micro-batch, where all items are as long as they
// may be. Nothing where the micro-batch is found by trial.
void log_memory(const Log& log, const PlannedModel& model, const PlannedWork& work,
                const FineTuning& training, std::int64_t length, std::int64_t target_length = 0);

}  // namespace gpuhpc
