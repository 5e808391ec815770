#include "gpuhpc/pipelines/planned_training.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/kernels/isa.hpp"

namespace gpuhpc {

PlannedWork planned_training(PlanJob job, const PlannedModel& model, const FineTuning& training,
                             bool cuda, int ranks) {
  const TrainOptions& train = training.trainer.train;
  const FineTuneOptions& tune = training.encoder;
  PlannedWork work;
  work.job = job;
  work.cuda = cuda;
  const kernels::Isa isa = kernels::best_isa();
  work.cpu_fp32 = isa >= kernels::Isa::avx2, work.cpu_bf16 = isa >= kernels::Isa::avx512_bf16;
  work.precision = name_of(train.precision_kind({cuda ? c10::kCUDA : c10::kCPU, 0}));
  work.checkpointing = train.activation_checkpointing;
  work.optimizer = train.optimizer;
  work.ranks = ranks;
  work.zero1 = training.trainer.parallel.strategy_kind() == Strategy::zero1 && ranks > 1;
  work.bf16_gradients = training.trainer.parallel.reduce_in_bfloat16();
  work.reproducible = training.trainer.parallel.reproducible;
  work.dropout = work.attention_dropout = tune.dropout;
  if (tune.dropout < 0) {
    work.dropout = model.is_t5() ? model.t5().dropout : model.encoder().hidden_dropout;
    work.attention_dropout = model.is_t5() ? work.dropout : model.encoder().attention_dropout;
  }
  work.trained_layers = model.is_t5() ? -1 : tune.layers;
  return work;
}

GpuKind this_processor(int threads) {
  const kernels::Isa isa = kernels::best_isa();
  GpuKind cpu;
  cpu.name = "cpu";
  cpu.fp32 = cpu.tf32 = threads * (isa >= kernels::Isa::avx512 ? .2 : .1);
  cpu.bf16 = isa >= kernels::Isa::amx          ? threads * 5.
             : isa < kernels::Isa::avx512_bf16 ? 0
                                               : threads * (kernels::prefers_bf16(isa) ? .8 : .1);
  cpu.bandwidth = 20, cpu.link = 5;
  cpu.memory = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 10 * 9;
  return cpu;
}

ForeseenBatch foreseen_batch(const PlannedModel& model, const PlannedWork& work,
                             const FineTuning& training, const DeviceChoice& device,
                             std::int64_t length, std::int64_t target_length) {
  const TrainOptions& train = training.trainer.train;
  if (train.micro_batch >= 0 || train.batch_tokens > 0) return {};
  PlanRequest request;
  request.model = model, request.work = work;
  try {
    const GpuFacts gpu = device.cuda ? query_gpu(device.index) : GpuFacts{};
    request.gpu = device.cuda ? gpu_like(gpu.name, gpu.memory) : this_processor(device.threads);
  } catch (const Error&) {  // a GPU that no table has: trials find out
    return {};
  }
  request.global_batch = train.global_batch(work.ranks);
  request.length = length, request.target_length = target_length;
  if (!device.cuda) request.memory = host_memory().limit / 100 * percent_of_limit(false);
  request.precisions = {work.precision};
  request.checkpointing = {work.checkpointing}, request.zero1 = {work.zero1};
  const PlanCandidate only = make_plan(request).candidates.front();
  return {std::max<std::int64_t>(1, only.largest), std::max<std::int64_t>(1, only.micro_batch)};
}

ForeseenBatch foreseen_student(const EncoderConfig& encoder, const FineTuning& training,
                               const DeviceChoice& device, int ranks, std::int64_t length) {
  const PlannedModel planned{.name = {}, .config = encoder};
  return foreseen_batch(
      planned, planned_training(PlanJob::classifier, planned, training, device.cuda, ranks),
      training, device, length);
}

void log_memory(const Log& log, const PlannedModel& model, const PlannedWork& work,
                const FineTuning& training, std::int64_t length, std::int64_t target_length) {
  const TrainOptions& train = training.trainer.train;
  if (train.micro_batch < 0 || train.batch_tokens > 0) return;
  const std::int64_t batch = train.global_batch(work.ranks),
                     each = block_count(batch, std::int64_t{work.ranks}),
                     documents = train.micro_batch > 0 ? std::min(train.micro_batch, each) : each;
  const MemoryParts parts = training_memory(
      model, work, {documents, length, target_length, block_count(batch, documents)});
  log->info(
      "memory of a rank's tensors: about {:.1f} GiB with {} items of {}{} tokens at once{} "
      "(`gpuhpc plan` has the parts)",
      static_cast<double>(parts.total()) / (1 << 30), documents, length,
      target_length > 0 ? fmt::format(" + {}", target_length) : "",
      work.over_batch && documents < each ? ", more where it is free for further micro-batches"
                                          : "");
}

}  // namespace gpuhpc
