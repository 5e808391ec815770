#include "gpuhpc/pipelines/planned_training.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuhpc/base/block.hpp"
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
  work.precision = name_of(train.precision_kind(cuda));
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
      "memory of a rank's tensors: about {:.1f} GiB with {} items of {}{} tokens at once (`gpuhpc "
      "plan` has the parts)",
      static_cast<double>(parts.total()) / (1 << 30), documents, length,
      target_length > 0 ? fmt::format(" + {}", target_length) : "");
}

}  // namespace gpuhpc
