#include "gpuhpc/plan/plan.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "gpuhpc/base/block.hpp"

namespace gpuhpc {
namespace {

constexpr double gib = 1 << 30;

PlannedBatch batch_of(const PlanRequest& r, std::int64_t documents) {
  const std::int64_t pieces =
      std::max<std::int64_t>(r.work.ranks, block_count(r.global_batch, documents));
  return {documents, r.length, r.target_length, pieces};
}

// Any micro-batch gives the same answer, and a smaller one does not always need less memory: sums
// that do not depend on it keep gradients of up to four of them. Tried are powers of two, the share
// in one to four pieces, and `largest`, which a binary search found.
std::vector<std::int64_t> sizes_to_try(const PlanRequest& r, std::int64_t share,
                                       std::int64_t largest) {
  if (r.micro_batch > 0) return {std::min(r.micro_batch, share)};
  std::set<std::int64_t> sizes{std::max<std::int64_t>(1, largest)};
  for (std::int64_t size = 1; size < share; size *= 2) sizes.insert(size);
  for (std::int64_t pieces = 1; pieces <= 4; ++pieces) sizes.insert(block_count(share, pieces));
  return {sizes.begin(), sizes.end()};
}

PlanCandidate candidate_of(const PlanRequest& r, const PlannedWork& work, std::int64_t limit,
                           const Calibration& calibration) {
  PlanCandidate best{.work = work};
  const std::int64_t share = block_count(r.global_batch, static_cast<std::int64_t>(work.ranks));
  const auto bytes = [&](std::int64_t documents) {
    return calibrated(training_memory(r.model, work, batch_of(r, documents)), calibration);
  };
  const std::vector<std::int64_t> sizes =
      sizes_to_try(r, share, largest_batch(share, limit, bytes));
  std::int64_t smallest = sizes.front();  // in bytes
  for (const std::int64_t size : sizes) {
    if (bytes(size) < bytes(smallest)) smallest = size;
    if (bytes(size) > limit) continue;
    best.largest = std::max(best.largest, size);
    const PlannedBatch batch = batch_of(r, size);
    const double seconds = calibration.time * step_time(r.model, work, batch, r.gpu).seconds();
    if (best.fits() && seconds >= .99 * best.step_seconds) continue;
    best.micro_batch = batch.documents, best.step_seconds = seconds;
    best.accumulation = block_count(batch.micro_batches, static_cast<std::int64_t>(work.ranks));
  }
  const PlannedBatch batch = batch_of(r, best.fits() ? best.micro_batch : smallest);
  best.memory = training_memory(r.model, work, batch);
  best.bytes = calibrated(best.memory, calibration);
  if (best.fits())
    best.tokens_per_second =
        static_cast<double>(r.global_batch) *
        static_cast<double>(r.length * work.columns + (r.model.is_t5() ? r.target_length : 0)) /
        best.step_seconds;
  return best;
}

// The fewest ranks with which shared moments fit; 0: none.
int ranks_that_fit(const PlanRequest& r, const PlannedWork& work, std::int64_t limit) {
  if (work.optimizer == "adafactor") return 0;  // whose moments are not split
  for (int ranks = std::max(2, 2 * r.work.ranks); ranks <= 64; ranks *= 2) {
    PlannedWork more = work;
    more.ranks = ranks, more.zero1 = true, more.checkpointing = true;
    PlanRequest one = r;
    one.work = more;
    if (training_memory(r.model, more, batch_of(one, 1)).total() <= limit) return ranks;
  }
  return 0;
}

// What to do where nothing fits, or little does; the guide's order.
std::vector<std::string> advice_of(const PlanRequest& r, const Plan& plan) {
  std::vector<std::string> advice;
  const PlanCandidate& best = plan.candidates.front();
  if (plan.fits()) {
    const std::vector<std::string> steps = out_of_memory_steps(r, best);
    advice.push_back(fmt::format(
        "should an update run out of memory all the same, it is computed again with half the "
        "micro-batch and twice the accumulation, down to one document{}",
        steps.empty() ? ""
                      : fmt::format("; --train.on-out-of-memory \"{}\" (in the config that is "
                                    "written) says what comes next",
                                    fmt::join(steps, "; "))));
    return advice;
  }
  const double kept = static_cast<double>(best.memory.kept()) / gib;
  advice.push_back(fmt::format(
      "no micro-batch fits: {:.1f} GiB are needed, {:.1f} GiB of them for weights, gradients and "
      "moments alone (fp32: 16 bytes a parameter), and {:.1f} GiB are there",
      static_cast<double>(best.bytes) / gib, kept, static_cast<double>(plan.limit) / gib));
  if (const int ranks = ranks_that_fit(r, best.work, plan.limit); ranks > 0)
    advice.push_back(fmt::format(
        "--parallel.strategy zero1 on {} such GPUs fits: each holds its part of the moments",
        ranks));
  else
    advice.push_back(
        "take a smaller model or a larger GPU: weights and gradients alone are too "
        "much, which zero1 does not split");
  return advice;
}

}  // namespace

std::vector<std::string> out_of_memory_steps(const PlanRequest& r, const PlanCandidate& best) {
  constexpr std::int64_t shortest = 16;
  std::vector<std::string> steps;
  if (!best.work.checkpointing) steps.emplace_back("train.activation-checkpointing=true");
  if (r.length >= 2 * shortest)
    steps.push_back(fmt::format(
        "{}={}", r.model.is_t5() ? "seq2seq.source-length" : "train.max-length", r.length / 2));
  if (!best.work.half() && std::max(r.gpu.bf16, r.gpu.fp16) > 0)
    steps.push_back(fmt::format("train.precision={}", r.gpu.bf16 > 0 ? "bf16" : "fp16"));
  return steps;
}

std::int64_t calibrated(const MemoryParts& parts, const Calibration& calibration) {
  return parts.kept() + std::llround(calibration.memory * static_cast<double>(parts.moving()));
}

Plan make_plan(const PlanRequest& r) {
  return make_plan(r, [](const PlannedWork&) { return Calibration{}; });
}

Plan make_plan(const PlanRequest& r,
               const std::function<Calibration(const PlannedWork&)>& calibration) {
  Plan plan;
  plan.limit = r.memory > 0 ? r.memory : r.gpu.usable();
  if (is_training(r.work.job)) {
    for (const std::string& precision : r.precisions)
      for (const bool zero1 : r.zero1)
        for (const bool checkpointing : r.checkpointing) {
          PlannedWork work = r.work;
          work.precision = precision, work.zero1 = zero1, work.checkpointing = checkpointing;
          plan.candidates.push_back(candidate_of(r, work, plan.limit, calibration(work)));
        }
    std::ranges::stable_sort(plan.candidates, [](const PlanCandidate& a, const PlanCandidate& b) {
      if (a.fits() != b.fits()) return a.fits();
      return a.fits() ? a.step_seconds < b.step_seconds : a.bytes < b.bytes;
    });
    const PlanCandidate& best = plan.candidates.front();
    const Calibration factors = calibration(best.work);
    if (best.fits())
      plan.evaluation = largest_batch(1 << 14, plan.limit, [&](std::int64_t documents) {
        return calibrated(evaluation_memory(r.model, best.work, batch_of(r, documents)), factors);
      });
    plan.advice = advice_of(r, plan);
  }
  PlannedWork work = is_training(r.work.job) ? plan.candidates.front().work : r.work;
  if (!is_training(r.work.job)) work.precision = r.precisions.front();
  const auto parts_of = [&](std::int64_t documents) {
    return inference_memory(r.model, work, {documents, r.length, r.target_length});
  };
  // What trials of a training measured says nothing of this.
  const Calibration factors = is_training(r.work.job) ? Calibration{} : calibration(work);
  plan.inference = largest_batch(1 << 14, plan.limit, [&](std::int64_t documents) {
    return calibrated(parts_of(documents), factors);
  });
  const std::int64_t at_once = std::max<std::int64_t>(1, plan.inference);
  plan.inference_parts = parts_of(at_once);
  plan.inference_seconds =
      factors.time * inference_time(r.model, work, {at_once, r.length, r.target_length}, r.gpu);
  if (!is_training(r.work.job)) {
    PlanCandidate only{.work = work, .micro_batch = plan.inference, .largest = plan.inference};
    only.memory = plan.inference_parts, only.bytes = calibrated(only.memory, factors);
    only.step_seconds = plan.inference_seconds;
    only.tokens_per_second =
        static_cast<double>(at_once *
                            (work.job == PlanJob::generate ? r.target_length : r.length)) /
        only.step_seconds;
    plan.candidates.push_back(only);
    if (!plan.fits())
      plan.advice.push_back(fmt::format(
          "not one document fits: {:.1f} GiB are needed, {:.1f} are "
          "there; take a smaller model or a larger GPU",
          static_cast<double>(only.bytes) / gib, static_cast<double>(plan.limit) / gib));
  }
  return plan;
}

nlohmann::ordered_json to_json(const MemoryParts& p) {
  return {{"weights", p.weights},     {"gradients", p.gradients},
          {"optimizer", p.optimizer}, {"communication", p.communication},
          {"copies", p.copies},       {"activations", p.activations},
          {"logits", p.logits},       {"cache", p.cache},
          {"workspace", p.workspace}, {"total", p.total()}};
}

}  // namespace gpuhpc
