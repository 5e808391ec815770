#include "gpuhpc/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/block.hpp"

namespace gpuhpc {
namespace {

constexpr double gib = 1 << 30;

PlannedBatch batch_of(const PlanRequest& r, std::int64_t documents) {
  const std::int64_t pieces =
      std::max<std::int64_t>(r.work.ranks, block_count(r.global_batch, documents));
  return {documents, r.length, r.target_length, pieces};
}

Candidate candidate_of(const PlanRequest& r, const PlannedWork& work, std::int64_t limit,
                       const Calibration& calibration) {
  Candidate best{.work = work};
  const std::int64_t share = block_count(r.global_batch, static_cast<std::int64_t>(work.ranks));
  const auto bytes = [&](std::int64_t documents) {
    return calibrated(training_memory(r.model, work, batch_of(r, documents)), calibration);
  };
  best.largest = largest_batch(share, limit, bytes);
  // Any micro-batch gives the same answer: the fastest one is taken, of those twice as large as the
  // one before and the largest.
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size < best.largest; size *= 2) sizes.push_back(size);
  if (best.largest > 0) sizes.push_back(best.largest);
  if (const std::int64_t fixed = std::min(r.micro_batch, share); fixed > 0)
    sizes = fixed <= best.largest ? std::vector{fixed} : std::vector<std::int64_t>{};
  for (const std::int64_t size : sizes) {
    const PlannedBatch batch = batch_of(r, size);
    const double seconds = calibration.time * step_time(r.model, work, batch, r.gpu).seconds();
    if (best.fits() && seconds >= .99 * best.step_seconds) continue;
    best.micro_batch = batch.documents, best.step_seconds = seconds;
    best.accumulation = block_count(batch.micro_batches, static_cast<std::int64_t>(work.ranks));
  }
  const PlannedBatch batch = batch_of(r, std::max<std::int64_t>(1, best.micro_batch));
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
  for (int ranks = std::max(2, 2 * r.work.ranks); ranks <= 64; ranks *= 2) {
    PlannedWork more = work;
    more.ranks = ranks, more.zero1 = true, more.checkpointing = true;
    PlanRequest one = r;
    one.work = more;
    if (training_memory(r.model, more, batch_of(one, 1)).total() <= limit) return ranks;
  }
  return 0;
}

// What to do where not even one document fits, or little does; the guide's order.
std::vector<std::string> advice_of(const PlanRequest& r, const Plan& plan) {
  std::vector<std::string> advice;
  const Candidate& best = plan.candidates.front();
  if (plan.fits()) {
    if (best.accumulation > 1)
      advice.push_back(fmt::format(
          "should a step run out of memory all the same, it is computed again with half the "
          "micro-batch and twice the accumulation, down to one document; "
          "--train.on-out-of-memory \"train.activation-checkpointing=true; {}={}\" says what comes "
          "next",
          r.model.is_t5() ? "seq2seq.source-length" : "train.max-length",
          std::max<std::int64_t>(16, r.length / 2)));
    return advice;
  }
  const double kept = static_cast<double>(best.memory.kept()) / gib;
  advice.push_back(fmt::format(
      "not one document fits: {:.1f} GiB are needed, {:.1f} GiB of them for weights, gradients and "
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
    std::ranges::stable_sort(plan.candidates, [](const Candidate& a, const Candidate& b) {
      if (a.fits() != b.fits()) return a.fits();
      return a.fits() ? a.step_seconds < b.step_seconds : a.bytes < b.bytes;
    });
    const Candidate& best = plan.candidates.front();
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
  plan.inference = largest_batch(
      1 << 14, plan.limit, [&](std::int64_t documents) { return parts_of(documents).total(); });
  plan.inference_parts = parts_of(std::max<std::int64_t>(1, plan.inference));
  if (!is_training(r.work.job)) {
    const std::int64_t documents = std::max<std::int64_t>(1, plan.inference);
    Candidate only{.work = work, .micro_batch = plan.inference, .largest = plan.inference};
    only.memory = plan.inference_parts, only.bytes = only.memory.total();
    only.step_seconds =
        step_time(r.model, work, {documents, r.length, r.target_length}, r.gpu).products / 3;
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
