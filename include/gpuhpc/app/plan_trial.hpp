#pragma once
// A few updates, or a few batches, of a new model on made-up texts, that a plan is measured by.
// Nothing is saved.
#include "gpuhpc/app/options.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/plan/memory.hpp"

namespace gpuhpc {

struct TrialResult {
  std::int64_t peak = 0;    // most bytes that tensors held
  double step_seconds = 0;  // of the fastest update
  bool ran_out = false;     // of memory, with as many documents at once: nothing of this counts
};
// `batch.micro_batches` micro-batches an update. On a GPU the peak is that of the process so far,
// so trials come in the order of their size.
TrialResult run_trial(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
                      const Options& options, const DeviceChoice& device, Communicator& comm);

// `encode` or `generate` of `batch.documents` made-up texts by a new model; the seconds are those
// of all of them. On a processor the peak is what the process' own pages grew by, since kernels
// hold more than tensors: of one trial in a process, what the first one leaves is not given back.
TrialResult run_inference_trial(const PlannedModel& model, const PlannedWork& work,
                                const PlannedBatch& batch, const Options& options,
                                const DeviceChoice& device, Communicator& comm);

}  // namespace gpuhpc
