#include <algorithm>
#include <cmath>

#include "gpuhpc/plan/plan.hpp"

namespace gpuhpc {
namespace {

// Micro-batches of few tokens do not fill a GPU: half of the share is reached with so many. A
// processor packs all weights for each micro-batch, however small, and a document's attention has
// one thread: one of 128 tokens at a time is a third slower than sixteen
// (bench/results/2026-11-24-plan-limits.md).
constexpr double half_full = 512, half_full_processor = 72;
constexpr double launch = 6e-6;  // seconds of the host for a kernel
constexpr double kernels_a_layer = 30, link_share = .7;

struct Flops {
  double layers = 0, head = 0;
};

Flops flops_of(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch) {
  const auto b = static_cast<double>(batch.documents), l = static_cast<double>(batch.length),
             m = static_cast<double>(batch.target_length), h = static_cast<double>(model.hidden()),
             v = static_cast<double>(model.vocabulary());
  Flops flops;
  if (!model.is_t5()) {
    const EncoderConfig& e = model.encoder();
    const double f = static_cast<double>(e.intermediate_size), kinds = e.relative ? 3 : 1,
                 texts = b * static_cast<double>(work.columns);
    const auto layers = static_cast<double>(e.layers);
    double seen = layers * kinds * l;  // keys of a query, over all layers
    if (e.modern) {
      const auto near = static_cast<double>(std::ranges::count(e.modern->local, true));
      seen = (layers - near) * l + near * std::min(l, 4. * static_cast<double>(e.modern->window));
    }
    flops.layers =
        texts * l * (layers * 2 * (4 * h * h + (e.modern ? 3 : 2) * h * f) + 4 * h * seen);
    if (work.job == PlanJob::pretrain)
      flops.head = texts * std::round(work.masked * (l - 2)) * 2 * h * (v + h);
    return flops;
  }
  const T5Config& c = model.t5();
  const double i = static_cast<double>(c.inner_size()),
               f = static_cast<double>(c.intermediate_size) * (c.gated ? 3 : 2);
  flops.layers = static_cast<double>(c.layers) * b * l * (2 * (4 * h * i + h * f) + 4 * i * l) +
                 static_cast<double>(c.decoder_layers) * b *
                     (m * (2 * (6 * h * i + h * f) + 4 * i * (m + l)) + l * 4 * h * i);
  flops.head = b * m * 2 * h * v;
  return flops;
}

double layers_of(const PlannedModel& model) {
  return static_cast<double>(model.is_t5() ? model.t5().layers + 2 * model.t5().decoder_layers
                                           : model.encoder().layers);
}

}  // namespace

double StepTime::seconds() const {
  return std::max({products, traffic, launches}) + communication + update;
}

double forward_flops(const PlannedModel& model, const PlannedWork& work,
                     const PlannedBatch& batch) {
  const Flops flops = flops_of(model, work, batch);
  return flops.layers + flops.head;
}

double inference_time(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
                      const GpuKind& gpu) {
  const auto b = static_cast<double>(batch.documents), l = static_cast<double>(batch.length);
  const double peak = gpu.tflops(work.precision) * 1e12 * peak_share,
               tokens = b * l * static_cast<double>(model.is_t5() ? 1 : work.columns),
               rate = peak * tokens / (tokens + (gpu.sm == 0 ? half_full_processor : half_full)),
               kernels = gpu.sm == 0 ? 0 : kernels_a_layer * launch;
  if (!model.is_t5())
    return std::max(flops_of(model, work, batch).layers / rate, layers_of(model) * kernels);
  const T5Config& c = model.t5();
  const double h = static_cast<double>(c.hidden_size), i = static_cast<double>(c.inner_size()),
               layers = static_cast<double>(c.decoder_layers),
               m = static_cast<double>(batch.target_length),
               head = static_cast<double>(c.vocabulary_size) * h,
               f = static_cast<double>(c.intermediate_size) * (c.gated ? 3 : 2),
               rows = b * static_cast<double>(work.beams);
  // The encoder, and the keys and values of the sources in each layer of the decoder.
  PlannedBatch sources = batch;
  sources.target_length = 0;
  const double encoder = std::max(flops_of(model, work, sources).layers / rate,
                                  static_cast<double>(c.layers) * kernels);
  // A step: of each row one token, which looks at half of the tokens that there will be, and at its
  // source, whose keys and values the rows of a document share.
  const double weights = layers * (6 * h * i + h * f) + head,
               products = rows * (2 * weights + layers * 4 * i * (m / 2 + l)),
               cached = layers * 2 * i * (rows * m / 2 + b * l),
               bytes = static_cast<double>(work.value_bytes()) * weights + sizeof(float) * cached;
  const double step =
      std::max({products / peak, bytes / (gpu.bandwidth * 1e9), 2 * layers * kernels});
  return encoder + m * step;
}

StepTime step_time(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
                   const GpuKind& gpu) {
  const Flops flops = flops_of(model, work, batch);
  double passes = 3;
  if (!model.is_t5() && work.trained_layers >= 0)  // frozen layers are computed once
    passes = 1 + 2 * std::min(1., static_cast<double>(work.trained_layers) /
                                      static_cast<double>(model.encoder().layers));
  const double again = work.checkpointing ? passes - 2 : 0;  // 1 with all layers learning
  const double micro_batches =
      std::ceil(static_cast<double>(batch.micro_batches) / static_cast<double>(work.ranks));
  const double tokens =
      static_cast<double>(batch.documents) *
      static_cast<double>(batch.length * work.columns + (model.is_t5() ? batch.target_length : 0));
  const double rate = gpu.tflops(work.precision) * 1e12 * peak_share * tokens /
                      (tokens + (gpu.sm == 0 ? half_full_processor : half_full));
  const MemoryParts parts = training_memory(model, work, batch);
  const double bandwidth = gpu.bandwidth * 1e9, arena = static_cast<double>(parts.gradients);
  StepTime time;
  time.products =
      micro_batches * (flops.layers * (passes + std::max(0., again)) + 3 * flops.head) / rate;
  // Weights are read and cast in both directions, their gradients added; what layers keep is
  // written and read.
  time.traffic = micro_batches *
                 (4 * static_cast<double>(parts.weights) +
                  3 * static_cast<double>(parts.activations + parts.logits + parts.copies)) /
                 bandwidth;
  time.launches = gpu.sm == 0 ? 0
                              : micro_batches * layers_of(model) * kernels_a_layer * launch *
                                    (passes + std::max(0., again));
  time.update = (4 * arena + 3 * static_cast<double>(parts.optimizer)) / bandwidth;
  if (work.ranks > 1) {
    const double share = static_cast<double>(work.ranks - 1) / work.ranks,
                 sent = arena * (work.bf16_gradients ? .5 : 1) * (work.zero1 ? 1 : 2) +
                        (work.zero1 ? arena : 0);
    time.communication = sent * share / (gpu.link * 1e9 * link_share);
    // Buckets leave during the last micro-batch's backward pass.
    time.communication =
        std::max(time.communication / 8,
                 time.communication - std::max(time.products, time.traffic) / micro_batches / 2);
  }
  return time;
}

}  // namespace gpuhpc
