#include "gpuhpc/train/checkpointer.hpp"

#include <cmath>

#include "gpuhpc/base/error.hpp"

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

void Checkpointer::attach(TrainHooks& hooks) {
  hooks.writer_status = [this] { return status(); };
  hooks.checkpoint = [this](Trainer& trainer, const WriterStatus& anywhere, bool last) {
    after_step(trainer, anywhere, last);
  };
}

std::int64_t Checkpointer::resume(Trainer& trainer) {
  const std::optional<CheckpointState> checkpoint = store_.load(buffers_of(trainer));
  if (!checkpoint) return 0;
  const TrainerState state = from_checkpoint(*checkpoint);
  trainer.optimizer().set_steps(checkpoint->values.at("optimizer_steps"));
  trainer.restore(state);
  validations_ = state.validation.size();
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
  const bool validated = state.validation.size() > validations_;
  const bool better = validated && state.best_step == state.step;
  validations_ = state.validation.size();
  wanted_ = wanted_ || anywhere.due || better || (every_ > 0 && state.step % every_ == 0);
  // A better model is saved as it is now, a last one, too: they wait for the one under way. The
  // others come a little later.
  if (anywhere.failed || (store_.started() && (!anywhere.writing || better || last)))
    store_.commit();
  // A run that is over goes on with other work: what was worth a checkpoint before is now, too.
  const bool over = state.step == trainer.total_steps();
  const bool now = last ? store_.last_step() != state.step && (!over || store_.last_step() >= 0)
                        : wanted_ && !store_.started();
  if (now) save(trainer, state, validated ? std::optional(state.validation.back()) : std::nullopt);
  if (last) store_.finish();
}

void Checkpointer::save(Trainer& trainer, const TrainerState& state, std::optional<double> metric) {
  CheckpointState checkpoint = to_checkpoint(state, trainer.optimizer().steps());
  if (metric && std::isfinite(*metric)) checkpoint.metric = metric;
  const double seconds = store_.start(buffers_of(trainer), checkpoint);
  wanted_ = false;
  last_save_ = Clock::now();
  blocked_seconds_ += seconds;
  ++saved_;
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
                "the validation loss was not finite after any epoch; lower --train.encoder-lr and "
                "--train.head-lr, or use --train.precision fp32",
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
                       {"next_batch", state.next_batch},
                       {"skipped_in_a_row", state.skipped_in_a_row},
                       {"micro_batch", state.micro_batch},
                       {"loss_scale", state.loss_scale},
                       {"good_steps", state.good_steps},
                       {"skipped", state.skipped},
                       {"best_step", state.best_step},
                       {"documents", state.documents},
                       {"tokens", state.tokens},
                       {"optimizer_steps", optimizer_steps},
                       {"losses", state.losses.size()}};
  // What may be infinite or no number has no place in JSON.
  checkpoint.history = state.losses;
  checkpoint.history.push_back(state.best_metric);
  checkpoint.history.insert(checkpoint.history.end(), state.validation.begin(),
                            state.validation.end());
  return checkpoint;
}

TrainerState from_checkpoint(const CheckpointState& checkpoint) {
  const Json& values = checkpoint.values;
  TrainerState state;
  state.step = checkpoint.step;
  state.epoch = values.at("epoch");
  state.next_batch = values.at("next_batch");
  state.skipped_in_a_row = values.at("skipped_in_a_row");
  state.micro_batch = values.at("micro_batch");
  state.loss_scale = values.at("loss_scale");
  state.good_steps = values.at("good_steps");
  state.skipped = values.at("skipped");
  state.best_step = values.at("best_step");
  state.documents = values.at("documents");
  state.tokens = values.at("tokens");
  const auto losses = checkpoint.history.begin() + values.at("losses").get<std::ptrdiff_t>();
  state.losses.assign(checkpoint.history.begin(), losses);
  state.best_metric = *losses;
  state.validation.assign(losses + 1, checkpoint.history.end());
  return state;
}

}  // namespace gpuhpc
