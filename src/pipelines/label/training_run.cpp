#include "gpuhpc/pipelines/label/training_run.hpp"

#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/nccl.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/train/time_split.hpp"

namespace gpuhpc {

std::vector<ParameterGroup> encoder_and_head(Encoder& encoder, std::int64_t layers,
                                             const std::vector<ParameterSlot>& head,
                                             const TrainOptions& options) {
  encoder.train_top_layers(layers);
  std::vector<ParameterGroup> groups = split_by_decay(
      "encoder", options.encoder_rate, options.weight_decay, trained_parameters(encoder));
  for (ParameterGroup& group :
       split_by_decay("head", options.head_rate, options.weight_decay, head))
    groups.push_back(std::move(group));
  return groups;
}

ForwardOptions training_forward(const Encoder& encoder, const TrainOptions& options,
                                std::uint64_t seed) {
  const Precision precision = options.precision_kind(encoder.device().is_cuda());
  ForwardOptions forward;
  forward.compute = precision == Precision::bf16   ? at::kBFloat16
                    : precision == Precision::fp16 ? at::kHalf
                                                   : at::kFloat;
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

std::optional<TrainingRun::Split> TrainingRun::split(const BatchSource& source,
                                                     const TrainOptions& options) {
  if (options.validation == 0) return std::nullopt;
  HeldOut parts =
      hold_out(source.size(), options.validation, static_cast<std::uint64_t>(options.seed));
  if (parts.learnt.empty() || parts.validation.empty())
    throw Error(ExitCode::configuration,
                fmt::format("--train.validation {} of {} documents leaves {} to learn from and {} "
                            "to validate on; give another share, or 0",
                            options.validation, source.size(), parts.learnt.size(),
                            parts.validation.size()),
                true);
  return Split{{source, std::move(parts.learnt)}, {source, std::move(parts.validation)}};
}

TrainingRun::TrainingRun(const StageContext& c, const TrainingOptions& o,
                         const ParameterArena& arena, const BatchSource& source)
    : c_(c),
      o_(o),
      source_(source),
      lines_(c.checkpoints / "metrics.jsonl"),
      metrics_(lines_, c.run_folder / "events" / c.name, arena, c.device, c.comm),
      checkpointer_({c.checkpoints, c.task, o.train.keep}, o.train, c.comm, c.log),
      slow_ranks_(c.comm, c.log),
      trace_(o.profile.range(),
             c.run_folder / "trace" / c.name / fmt::format("rank-{:05d}.json", c.comm.rank()),
             c.comm.rank(), c.comm.host()),
      parts_(split(source, o.train)) {
  if (c.comm.all_reduce_value<std::int32_t>(c.device.cuda, Reduce::min) > 0 && c.comm.size() > 1)
    between_gpus_ = make_nccl_communicator(c.comm, make_nccl_api(c.device.index), o.parallel);
}

TrainHooks TrainingRun::hooks() {
  TrainHooks hooks{.log = c_.log};
  hooks.report = [this](const StepReport& report) {
    slow_ranks_.after_step(report);
    metrics_.step(report);
  };
  if (o_.profile.range().size() > 0) hooks.trace = &trace_;
  if (parts_) hooks.validate = [this](Trainer& trainer) { return validate(trainer); };
  hooks.stop_requested = c_.stop_requested;
  checkpointer_.attach(hooks);
  return hooks;
}

double TrainingRun::validate(Trainer& trainer) {
  const TrainerState state = trainer.state();
  const double loss = trainer.mean_loss(parts_->held_out);
  metrics_.validation(state.step, state.epoch, loss);
  if (c_.log && c_.comm.is_root())
    c_.log->info("epoch {}: validation loss {:.5f} on {} documents{}", state.epoch + 1, loss,
                 parts_->held_out.size(), -loss > state.best_metric ? ", the best so far" : "");
  return -loss;
}

void TrainingRun::resume(Trainer& trainer) {
  const std::int64_t done = checkpointer_.resume(trainer);
  const Range chosen = o_.profile.range();
  on_root(c_.comm, [&] {
    metrics_.begin(done);
    if (chosen.size() > 0) std::filesystem::remove_all(c_.run_folder / "trace" / c_.name);
  });
  if (chosen.size() > 0 && (chosen.last <= done + 1 || chosen.first > trainer.total_steps()) &&
      c_.log && c_.comm.is_root())
    c_.log->warn(
        "--profile.steps {}: there will be no trace of the stage {}, this start makes the updates "
        "{} to {}",
        o_.profile.steps, c_.name, done + 1, trainer.total_steps());
}

void TrainingRun::finish(Trainer& trainer, const TrainSummary& summary, const TrainedFiles& out) {
  if (o_.train.restore == "best") checkpointer_.restore_best(trainer);
  on_root(c_.comm, [&] { gpuhpc::copy_file(lines_, out.metrics); });
  write_rank_times(out.ranks, summary, c_.device, c_.comm);
  if (!c_.log || !c_.comm.is_root()) return;
  c_.log->info("time of rank 0: {}", describe_times(summary));
  for (const std::string& sentence : time_advice(summary)) c_.log->warn(sentence);
}

}  // namespace gpuhpc
