#include "gpuhpc/train/checkpointer.hpp"

#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {
namespace {

using Clock = std::chrono::steady_clock;

CheckpointBuffers buffers_of(Trainer& trainer) {
  Optimizer& optimizer = trainer.optimizer();
  return {trainer.model(), optimizer.ranges(), optimizer.first_moment(), optimizer.second_moment()};
}

}  // namespace

Checkpointer::Checkpointer(CheckpointSettings settings, const TrainOptions& options,
                           Communicator& comm, Log log)
    : store_(std::move(settings), comm, log),
      every_(options.checkpoint_every),
      minutes_(options.checkpoint_minutes),
      comm_(comm),
      log_(std::move(log)) {}

std::int64_t Checkpointer::resume(Trainer& trainer) {
  const std::optional<CheckpointState> checkpoint = store_.load(buffers_of(trainer));
  if (!checkpoint) return 0;
  const TrainerState state = from_checkpoint(*checkpoint);
  if (const std::int64_t size = trainer.state().batch_size; state.batch_size != size)
    throw Error(ExitCode::configuration,
                fmt::format("the checkpoint of step {} was made with batches of {}, these are of "
                            "{}; start as many ranks as then (--train.batch-per-rank counts on "
                            "each), or give --train.batch {}",
                            state.step, state.batch_size, size, state.batch_size),
                true);
  trainer.optimizer().set_steps(checkpoint->values.at("optimizer_steps"));
  trainer.restore(state);
  if (log_ && comm_.is_root())
    log_->info("going on after the checkpoint of step {} of {} (epoch {})", state.step,
               trainer.total_steps(), state.epoch + 1);
  return state.step;
}

// Rank 0's clock counts.
WriterStatus Checkpointer::status() {
  const double minutes = std::chrono::duration<double>(Clock::now() - last_save_).count() / 60;
  return {.writing = store_.writing(),
          .failed = store_.failed(),
          .due = comm_.is_root() && minutes_ > 0 && minutes >= minutes_};
}

// Every decision here follows from values that are the same on all ranks.
void Checkpointer::after_step(Trainer& trainer, const WriterStatus& anywhere, bool last) {
  const TrainerState state = trainer.state();
  const bool better = state.best_step == state.step;
  wanted_ = wanted_ || anywhere.due || better || (every_ > 0 && state.step % every_ == 0);
  // A better model is saved as it is now, a last one, too: they wait for the one under way. The
  // others come a little later.
  if (anywhere.failed || (store_.started() && (!anywhere.writing || better || last)))
    store_.commit();
  // A run that is over goes on with other work: what was worth a checkpoint before is now, too.
  const bool over = trainer.over();
  const bool now = last ? store_.last_step() != state.step && (!over || store_.last_step() >= 0)
                        : wanted_ && !store_.started();
  if (now) save(trainer, state);
}

void Checkpointer::save(Trainer& trainer, const TrainerState& state) {
  const CheckpointState checkpoint = to_checkpoint(state, trainer.optimizer().steps());
  // Weights that were gathered by a collective that failed are not worth one.
  run_collectively(comm_, [&] { trainer.sync().check(); });
  const double seconds = store_.start(buffers_of(trainer), checkpoint);
  wanted_ = false;
  last_save_ = Clock::now();
  if (log_ && comm_.is_root())
    log_->info("checkpoint of step {}: training waited {:.1f} ms for the copy of {:.1f} MB",
               state.step, 1e3 * seconds, static_cast<double>(store_.part_bytes()) / 1e6);
}

// A better model was saved at once, and stays (after_step, CheckpointStore::prune); one that is the
// last needs no checkpoint.
void Checkpointer::restore_best(Trainer& trainer) {
  const TrainerState state = trainer.state();
  if (state.best_step == 0)
    throw Error(ExitCode::diverged,
                "no validation was finite; lower the learning "
                "rates, or use --train.precision fp32",
                true);
  if (state.best_step < state.step) store_.load_step(state.best_step, buffers_of(trainer));
  if (log_ && comm_.is_root())
    log_->info("the model gets the weights of step {} of {}, the best validation", state.best_step,
               state.step);
}

CheckpointState to_checkpoint(const TrainerState& state, std::int64_t optimizer_steps) {
  CheckpointState checkpoint;
  checkpoint.step = state.step;
  checkpoint.values = {{"epoch", state.epoch},
                       {"batch", state.batch},
                       {"batch_size", state.batch_size},
                       {"skipped_in_a_row", state.skipped_in_a_row},
                       {"micro_batch", state.micro_batch},
                       {"asked_micro_batch", state.asked_micro_batch},
                       {"loss_scale", state.loss_scale},
                       {"good_steps", state.good_steps},
                       {"validated_at", state.validated_at},
                       {"best_step", state.best_step},
                       {"not_better", state.not_better},
                       {"skipped", state.skipped},
                       {"documents", state.documents},
                       {"tokens", state.tokens},
                       {"optimizer_steps", optimizer_steps}};
  // What is not finite has no place in JSON.
  if (state.best_step > 0) checkpoint.values["best_metric"] = state.best_metric;
  if (state.validated_at == state.step && std::isfinite(state.metric))
    checkpoint.metric = state.metric;
  return checkpoint;
}

TrainerState from_checkpoint(const CheckpointState& checkpoint) {
  const Json& values = checkpoint.values;
  TrainerState state;
  state.step = checkpoint.step;
  state.epoch = values.at("epoch");
  state.batch = values.at("batch");
  state.batch_size = values.at("batch_size");
  state.skipped_in_a_row = values.at("skipped_in_a_row");
  state.micro_batch = values.at("micro_batch");
  state.asked_micro_batch = values.value("asked_micro_batch", state.micro_batch);
  state.loss_scale = values.at("loss_scale");
  state.good_steps = values.at("good_steps");
  state.validated_at = values.at("validated_at");
  state.best_step = values.at("best_step");
  state.not_better = values.value("not_better", state.not_better);
  state.skipped = values.at("skipped");
  state.documents = values.at("documents");
  state.tokens = values.at("tokens");
  state.metric = checkpoint.metric.value_or(state.metric);
  state.best_metric = values.value("best_metric", state.best_metric);
  return state;
}

}  // namespace gpuhpc
