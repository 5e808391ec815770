#include "gpuhpc/stages/teleclass/variants/training_setup.hpp"

#include <ATen/Context.h>

#include "gpuhpc/comm/nccl.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/stages/classify/metrics_log.hpp"
#include "gpuhpc/train/checkpointer.hpp"

namespace gpuhpc {

std::vector<ParameterGroup> encoder_and_head(Encoder& encoder, std::int64_t layers, const std::vector<ParameterSlot>& head, const TrainOptions& options) {
  encoder.train_top_layers(layers);
  std::vector<ParameterGroup> groups = split_by_decay("encoder", options.encoder_rate, options.weight_decay, trained_parameters(encoder));
  for (ParameterGroup& group : split_by_decay("head", options.head_rate, options.weight_decay, head)) groups.push_back(std::move(group));
  return groups;
}

ForwardOptions training_forward(const Encoder& encoder, const TrainOptions& options, std::uint64_t seed) {
  const Precision precision = options.precision_kind(encoder.device().is_cuda());
  ForwardOptions forward;
  forward.compute = precision == Precision::bf16 ? at::kBFloat16 : precision == Precision::fp16 ? at::kHalf : at::kFloat;
  forward.tf32 = precision == Precision::tf32;
  forward.checkpoint_layers = options.activation_checkpointing;
  forward.hidden_dropout = forward.attention_dropout = options.dropout;
  if (options.dropout > 0) {
    forward.generator = make_generator(encoder.device(), seed);
    // Attention on a GPU draws from LibTorch's own generator.
    if (encoder.device().is_cuda()) {
      at::Generator own = at::globalContext().defaultGenerator(encoder.device());
      own.set_current_seed(seed);
    }
  }
  return forward;
}

TrainSummary run_training(const StageContext& c, const TeleclassPipelineOptions& o, ParameterArena& arena, const BatchSource& source, Loss loss) {
  // Checkpoints and the lines that go with them outlive a run that is stopped or killed.
  const std::filesystem::path lines = c.checkpoints / "metrics.jsonl";
  const MetricsLog metrics(lines, c.comm);
  Checkpointer checkpointer({c.checkpoints, c.task, o.train.keep}, o.train, c.comm, c.log);
  TrainHooks hooks{.log = c.log, .report = metrics.hook()};
  hooks.stop_requested = c.stop_requested;
  checkpointer.attach(hooks);
  std::unique_ptr<Communicator> between_gpus;  // where every rank has one
  if (c.comm.all_reduce_value<std::int32_t>(c.device.cuda, Reduce::min) > 0 && c.comm.size() > 1)
    between_gpus = make_nccl_communicator(c.comm, make_nccl_api(c.device.index), o.parallel);
  Trainer trainer(arena, source, std::move(loss), o.train, o.parallel, c.comm, std::move(hooks), between_gpus.get());
  const std::int64_t done = checkpointer.resume(trainer);
  on_root(c.comm, [&] {
    create_folder(c.checkpoints);
    if (done == 0) write_text_file(lines, "");
    else cut_step_lines(lines, done);
  });
  const TrainSummary summary = trainer.run();
  on_root(c.comm, [&] { gpuhpc::copy_file(lines, c.folder / "metrics.jsonl"); });
  return summary;
}

}  // namespace gpuhpc
