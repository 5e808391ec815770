#pragma once
// What fits: ways of computing a job on a GPU, with memory and time, best first.
#include <functional>
#include <string>
#include <vector>

#include "gpuhpc/io/json.hpp"
#include "gpuhpc/plan/gpus.hpp"
#include "gpuhpc/plan/memory.hpp"

namespace gpuhpc {

// What trials measured, over what was predicted.
struct Calibration {
  double memory = 1;  // of MemoryParts::moving()
  double time = 1;    // of a micro-batch
  std::string from;   // the trials; empty: none
};
std::int64_t calibrated(const MemoryParts& parts, const Calibration& calibration);

struct PlanRequest {
  PlannedModel model;
  PlannedWork work;  // precision, checkpointing, zero1 and optimizer where they are fixed
  std::int64_t global_batch = 32, length = 128, target_length = 64;
  GpuKind gpu;
  std::int64_t memory = 0;  // above 0: in place of the GPU's usable bytes
  std::vector<std::string> precisions = {"fp32"};
  std::vector<bool> checkpointing = {false, true}, zero1 = {false};
  std::int64_t micro_batch = 0;  // above 0: no other one
};

struct PlanCandidate {
  PlannedWork work;
  std::int64_t micro_batch = 0;  // documents a rank computes at once; 0: no number of them fits
  std::int64_t accumulation = 1;
  std::int64_t largest = 0;  // micro-batch that fits
  MemoryParts memory = {};   // of micro_batch; where none fits, of the one that needs least
  std::int64_t bytes = 0;    // calibrated total
  double step_seconds = 0, tokens_per_second = 0;  // of inference: of the documents at once
  bool fits() const { return micro_batch > 0; }
};

// Seconds of an update of `batch.micro_batches` micro-batches over all ranks: products at a stated
// share of the peak, memory traffic where that takes longer, the sum over ranks, and the optimizer.
struct StepTime {
  double products = 0, traffic = 0, launches = 0, communication = 0, update = 0;
  double seconds() const;
};
constexpr double peak_share = .4;  // of large products: 37-62% are the best published figures
double forward_flops(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch);
StepTime step_time(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
                   const GpuKind& gpu);

// Seconds of `batch.documents` in a process that does not learn: a forward pass; `generate`: one of
// the encoder, then `target_length` steps of the decoder, each as long as its products at the
// stated share of the peak, the traffic of its weights and of the keys and values that were kept,
// or the launches.
double inference_time(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
                      const GpuKind& gpu);

// The largest number of documents at once, up to `most`, whose `bytes` fit `limit`; 0: none.
template <typename Bytes>
std::int64_t largest_batch(std::int64_t most, std::int64_t limit, const Bytes& bytes) {
  std::int64_t good = 0, bad = most + 1;
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good + 1) / 2;
    (bytes(middle) <= limit ? good : bad) = middle;
  }
  return good;
}

struct Plan {
  std::int64_t limit = 0;                 // bytes that tensors may take
  std::vector<PlanCandidate> candidates;  // best first; those that do not fit stand last
  std::int64_t evaluation = 0;            // documents at once, beside the best candidate's training
  std::int64_t inference = 0;             // likewise, in a process of its own
  MemoryParts inference_parts;
  double inference_seconds = 0;  // of so many documents
  std::vector<std::string> advice;

  bool fits() const { return !candidates.empty() && candidates.front().fits(); }
};
// `calibration`: what is known of a way of computing.
Plan make_plan(const PlanRequest& request,
               const std::function<Calibration(const PlannedWork&)>& calibration);
Plan make_plan(const PlanRequest& request);

// --train.on-out-of-memory where not even one document fits, one step after the other. The guide's
// order: when half the batch with twice the accumulation, which the Trainer takes by itself, is not
// enough, shorter texts, then half precision; before both what changes no result, layers computed
// again.
std::vector<std::string> out_of_memory_steps(const PlanRequest& request, const PlanCandidate& best);

nlohmann::ordered_json to_json(const MemoryParts& parts);

}  // namespace gpuhpc
