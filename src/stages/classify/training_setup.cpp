#include "gpuhpc/stages/classify/training_setup.hpp"

#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include <optional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/nccl.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/stages/classify/metrics_log.hpp"
#include "gpuhpc/train/checkpointer.hpp"
#include "gpuhpc/train/slow_rank.hpp"

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
  if (options.dropout > 0 && c10::GradMode::is_enabled()) {
    forward.hidden_dropout = forward.attention_dropout = options.dropout;
    forward.generator = make_generator(encoder.device(), seed);
    // Attention on a GPU draws from LibTorch's own generator.
    if (encoder.device().is_cuda()) {
      at::Generator own = at::globalContext().defaultGenerator(encoder.device());
      own.set_current_seed(seed);
    }
  }
  return forward;
}

namespace {

// What is learnt from, and what is only looked at after each epoch.
struct Split {
  SubsetSource learnt, held_out;
};
std::optional<Split> split(const BatchSource& source, const TrainOptions& options) {
  if (options.validation == 0) return std::nullopt;
  HeldOut parts = hold_out(source.size(), options.validation, static_cast<std::uint64_t>(options.seed));
  if (parts.learnt.empty() || parts.validation.empty())
    throw Error(ExitCode::configuration, fmt::format("--train.validation {} of {} documents leaves {} to learn from and {} to validate on; give another share, or 0",
                                                     options.validation, source.size(), parts.learnt.size(), parts.validation.size()), true);
  return Split{{source, std::move(parts.learnt)}, {source, std::move(parts.validation)}};
}

std::function<double(Trainer&)> validator(const StageContext& c, const SubsetSource& held_out, MetricsLog& metrics) {
  return [&](Trainer& trainer) {
    const TrainerState state = trainer.state();
    const double loss = trainer.mean_loss(held_out);
    metrics.validation(state.step, state.epoch, loss);
    if (c.log && c.comm.is_root())
      c.log->info("epoch {}: validation loss {:.5f} on {} documents{}", state.epoch + 1, loss, held_out.size(), -loss > state.best_metric ? ", the best so far" : "");
    return -loss;
  };
}

}  // namespace

TrainSummary run_training(const StageContext& c, const ClassifyOptions& o, ParameterArena& arena, const BatchSource& source, Loss loss,
                          std::function<bool(Trainer&, std::int64_t)> before_step) {
  // Checkpoints and the lines that go with them outlive a run that is stopped or killed.
  const std::filesystem::path lines = c.checkpoints / "metrics.jsonl";
  MetricsLog metrics(lines, c.run_folder / "events", arena, c.device, c.comm);
  Checkpointer checkpointer({c.checkpoints, c.task, o.train.keep}, o.train, c.comm, c.log);
  SlowRankWatch slow_ranks(c.comm, c.log);
  TrainHooks hooks{.log = c.log};
  hooks.report = [&](const StepReport& report) {
    slow_ranks.after_step(report);
    metrics.step(report);
  };
  hooks.before_step = std::move(before_step);
  const Range chosen = o.profile.range();
  Trace trace(chosen, c.run_folder / "trace" / fmt::format("rank-{:05d}.json", c.comm.rank()), c.comm.rank(), c.comm.host());
  if (chosen.size() > 0) hooks.trace = &trace;
  hooks.stop_requested = c.stop_requested;
  checkpointer.attach(hooks);
  std::unique_ptr<Communicator> between_gpus;  // where every rank has one
  if (c.comm.all_reduce_value<std::int32_t>(c.device.cuda, Reduce::min) > 0 && c.comm.size() > 1)
    between_gpus = make_nccl_communicator(c.comm, make_nccl_api(c.device.index), o.parallel);
  const std::optional<Split> parts = split(source, o.train);
  if (parts) hooks.validate = validator(c, parts->held_out, metrics);
  Trainer trainer(arena, parts ? parts->learnt : source, std::move(loss), o.train, o.parallel, c.comm, std::move(hooks), between_gpus.get());
  const std::int64_t done = checkpointer.resume(trainer);
  on_root(c.comm, [&] {
    metrics.begin(done);
    if (chosen.size() > 0) std::filesystem::remove_all(c.run_folder / "trace");
  });
  if (chosen.size() > 0 && (chosen.last <= done + 1 || chosen.first > trainer.total_steps()) && c.log && c.comm.is_root())
    c.log->warn("--profile.steps {}: there will be no trace, this start makes the updates {} to {}", o.profile.steps, done + 1, trainer.total_steps());
  const TrainSummary summary = trainer.run();
  if (o.train.restore == "best") checkpointer.restore_best(trainer);
  on_root(c.comm, [&] { gpuhpc::copy_file(lines, c.folder / "metrics.jsonl"); });
  write_rank_times(c.folder / "ranks.jsonl", summary, c.device, c.comm);
  return summary;
}

}  // namespace gpuhpc
