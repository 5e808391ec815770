// The training loop and, on one screen, its step.
#include "gpuhpc/train/trainer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/train/sampler.hpp"

namespace gpuhpc {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One read for all micro-batches: each would make the host wait for its GPU.
double sum_of_losses(const std::vector<at::Tensor>& losses) {
  if (losses.empty()) return 0;
  const at::Tensor values = at::stack(losses).to(at::kCPU, at::kDouble);
  double sum = 0;
  for (std::int64_t i = 0; i < values.numel(); ++i) sum += values.const_data_ptr<double>()[i];
  return sum;
}

}  // namespace

TrainSummary Trainer::run() {
  const c10::Device device = model_.parameters().device();
  run_collectively(comm_, [&] {
    if (device.is_cuda())
      check_gpu_precision("train.precision", options_.precision, multiplies_bf16(device.index()));
  });
  check_one_precision(comm_, options_.precision_kind(device));
  resume();
  const auto start = std::chrono::steady_clock::now();
  TrainSummary own;
  double steps = 0;  // seconds in them
  std::optional<Progress> progress;
  const auto goes_on = [&] { return !over() && task_.before_step(state_.step); };
  bool more = goes_on();  // before prepare(): a task may have no loss before its first step
  if (more) warm_up(), prepare();
  if (context_.log && comm_.is_root()) context_.log->info(describe());
  warn_of_limits();
  if (context_.log)
    progress.emplace(context_.log, "training", total_steps(), "steps", comm_.is_root());
  if (progress && state_.step > 0) progress->resume(state_.step);
  for (; more; more = !stop_ && goes_on()) {
    const StepReport report = step();
    ++own.own_steps, own.own_tokens += static_cast<std::int64_t>(report.own_tokens),
        steps += report.step_seconds;
    own.data_seconds += report.data_seconds, own.compute_seconds += report.compute_seconds;
    own.exposed_communication_seconds += report.exposed_communication_seconds,
        own.update_seconds += report.update_seconds;
    if (progress)
      progress->advance(1, fmt::format("loss {:.4f}{}, {:.0f} tokens/s", report.loss,
                                       report.corpus.empty() ? "" : " of " + report.corpus,
                                       report.tokens_per_second));
    end_of_step();
  }
  end_of_steps();
  if (progress) progress->finish();
  own.seconds = seconds_since(start);
  own.other_seconds = own.seconds - steps;
  finish(own);
  return own;
}

StepReport Trainer::step() {
  prepare();
  Trace* const trace = trace_ ? &*trace_ : nullptr;
  if (trace != nullptr) trace->step_begins(state_.step + 1);
  const Span whole(trace, "step", state_.step + 1);
  const auto start = std::chrono::steady_clock::now();
  clock_.restart();
  const WorkClock::Mark begun = clock_.mark();
  WorkClock::Mark computed = begun, summed = begun;
  double own_tokens = 0;
  // 1 take the next global batch
  traced(trace, "data", [&] { draw(); });
  const Batch& batch = batch_in_hand_;
  decltype(Share::waits) waits{{begun, clock_.mark()}};
  Share share;
  Verdict verdict = Verdict::again;
  while (verdict == Verdict::again) {
    // 2 forward and backward over my micro-batches; complete buckets of gradients leave meanwhile
    share = accumulate(batch);
    computed = clock_.mark(), own_tokens = share.tokens;
    waits.insert(waits.end(), share.waits.begin(), share.waits.end());
    // 3 the rest of the sum over ranks
    traced(trace, "sum", [&] { sync_.finish(share.error != nullptr); });
    summed = clock_.mark();
    // 4 agree: did anyone fail? is everything finite? From here on `share` is that of all ranks.
    // (again: out of memory somewhere)
    verdict = traced(trace, "agreement", [&] { return agree(share, batch.items); });
  }
  // 5 update on the mean gradient
  const double multiplier = learning_rate_multiplier(schedule_, state_.step) * batch_factor_,
               scale = scaler_.scale();
  if (verdict == Verdict::update) {
    traced(trace, "update", [&] {
      optimizer_->step(multiplier, clip_factor(share.norm, options_.clip) / (share.count * scale));
    });
    traced(trace, "gather", [&] { sync_.gather_parameters(); });
  }
  // 6 count and report
  const double seconds = seconds_since(start);
  double data = 0;
  for (const auto& [from, to] : waits) data += clock_.between(from, to);
  const StepReport report{.step = state_.step + 1,
                          .epoch = batch.epoch,
                          .corpus = corpora()[batch.corpus].name,
                          .loss = share.loss / share.count,
                          .gradient_norm = share.norm,
                          .learning_rate_multiplier = multiplier,
                          .skipped = verdict == Verdict::skip,
                          .documents = static_cast<std::int64_t>(share.documents),
                          .tokens = static_cast<std::int64_t>(share.tokens),
                          .micro_batch = largest_micro_batch(batch.items),
                          .loss_scale = scale,
                          .tokens_per_second = share.tokens / seconds,
                          .own_tokens = own_tokens,
                          .step_seconds = seconds,
                          .data_seconds = data,
                          .compute_seconds = clock_.between(begun, computed) - data,
                          .exposed_communication_seconds = clock_.between(computed, summed),
                          .update_seconds = seconds - clock_.between(begun, summed)};
  traced(trace, "report", [&] { count(report); });
  return report;
}

// The next batch comes into hand. Behind it others are drawn and cut until the loader's threads
// have enough to do.
void Trainer::draw() {
  hand_.clear();
  if (ahead_.empty()) ahead_.push_back(draw_one(state_.step));
  batch_in_hand_ = std::move(ahead_.front());
  ahead_.pop_front();
  if (!loader_.has_threads()) return;
  std::int64_t asked = 0;
  for (const Batch& batch : ahead_) asked += batch.mine.size();
  const auto drawn = [&] { return batch_in_hand_.step + 1 + std::ssize(ahead_); };
  while (asked < context_.loader.prefetch && std::ssize(ahead_) < context_.loader.prefetch &&
         drawn() < total_steps()) {
    ahead_.push_back(draw_one(drawn()));
    asked += ahead_.back().mine.size();
  }
}

Trainer::Batch Trainer::draw_one(std::int64_t step) {
  Batch batch{.items = sampler_.next(),
              .step = step,
              .epoch = sampler_.epoch(),
              .number = sampler_.batch(),
              .corpus = sampler_.corpus(),
              .ends_epoch = sampler_.epoch_over()};
  cut(batch);
  return batch;
}

void Trainer::cut(Batch& batch) {
  const int fewest = fewest_pieces(batch.items);
  batch.pieces = cut_micro_batches(task_, batch.items, state_.micro_batch, fewest);
  batch.mine = micro_batches_of_rank(std::ssize(batch.pieces), comm_.rank(), comm_.size());
  for (std::int64_t i = batch.mine.first; i < batch.mine.last; ++i)
    loader_.ask(batch.pieces[static_cast<std::size_t>(i)], batch.step);
}

// One of my micro-batches, in their order: a second pass finds it in the hand.
void Trainer::take(std::int64_t piece, Share& share) {
  const WorkClock::Mark before = clock_.mark();
  const auto place = static_cast<std::size_t>(piece - batch_in_hand_.mine.first);
  traced(trace_ ? &*trace_ : nullptr, "data", [&] {
    if (place == hand_.size()) hand_.push_back(loader_.next());
    task_.take(hand_[place]);
  });
  share.waits.emplace_back(before, clock_.mark());
}

Trainer::Share Trainer::accumulate(const Batch& batch) {
  Share share;
  Trace* const trace = trace_ ? &*trace_ : nullptr;
  const Pieces& pieces = batch.pieces;
  const std::int64_t count = std::ssize(pieces);
  const Range mine = batch.mine;
  const bool in_two_passes = task_.scope(batch.items) == LossScope::global_batch && count > 1;
  sync_.begin();
  try {
    FirstPass first;
    if (in_two_passes) {
      first = first_pass(batch, share);
      if (!first.gradients.defined())
        return share;  // somebody failed: the agreement says what becomes of it
    }
    std::int64_t row = 0;
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      const std::vector<std::int64_t>& items = pieces[static_cast<std::size_t>(i)];
      LossSum loss;
      at::Tensor rows;
      if (const auto place = static_cast<std::size_t>(i - mine.first); place < first.rows.size()) {
        rows = std::move(first.rows[place]);
      } else {
        take(i, share);
        traced(trace, "forward", [&] {
          if (in_two_passes)
            rows = task_.represent(items, seed(i)).to(at::kFloat);
          else
            loss = task_.loss(items, seed(i));
        });
      }
      if (i + 1 == mine.last) sync_.arm();
      traced(trace, "backward", [&] {
        if (in_two_passes)
          rows.backward(first.gradients.narrow(0, row, std::ssize(items)));
        else
          (scaler_.dynamic() ? loss.sum * scaler_.scale() : loss.sum).backward();
      });
      row += std::ssize(items);
      if (!in_two_passes) {
        share.losses.push_back(loss.sum.detach());
        share.count += loss.count;
      }
      share.documents += static_cast<double>(items.size());
      if (i + 1 < mine.last && ends_quarter(i, count)) sync_.keep();
      for (const std::int64_t item : items) share.tokens += static_cast<double>(task_.cost(item));
    }
  } catch (...) {
    // the others are waiting in the sum: say so in the agreement
    share.error = std::current_exception();
  }
  return share;
}

Trainer::Verdict Trainer::agree(Share& share, std::span<const std::int64_t> batch) {
  // of the sum over ranks: under ddp all ranks hold it, and all must clip alike, so rank 0's counts
  double square = 0;
  const bool counts = comm_.is_root() || sync_.sharded();
  try {
    if (!share.error) share.loss += sum_of_losses(share.losses);
    std::vector<at::Tensor> slices;
    for (const Range& range : sync_.owned())
      if (counts) slices.push_back(model_.gradients().narrow(0, range.first, range.size()));
    for (const double one : square_sums(slices)) square += one;
    sync_.check();  // on a GPU the sums are there only now
  } catch (...) {
    if (!share.error) share.error = std::current_exception();
  }
  const bool usable = !share.error && std::isfinite(share.loss) && std::isfinite(square),
             starved = is_out_of_memory(share.error);
  const WriterStatus writer = checkpointer_ ? checkpointer_->status() : WriterStatus{};
  enum {
    loss,
    items,
    documents,
    tokens,
    failed,
    out_of_memory,
    several_graphs,
    unusable,
    squares,
    stop,
    writing,
    not_written,
    due,
    fields
  };
  std::array<double, fields> sums{};
  sums[loss] = usable ? share.loss : 0;
  sums[items] = share.count;
  sums[documents] = share.documents;
  sums[tokens] = share.tokens;
  sums[failed] = share.error && !starved;
  sums[out_of_memory] = starved;
  sums[several_graphs] = share.several_graphs;
  sums[unusable] = !usable;
  sums[squares] = usable ? square : 0;
  sums[stop] = context_.stop_requested && context_.stop_requested();
  sums[writing] = writer.writing;
  sums[not_written] = writer.failed;
  sums[due] = writer.due;
  comm_.all_reduce(std::span<double>(sums));
  stop_ = sums[stop] > 0;
  writers_ = {sums[writing] > 0, sums[not_written] > 0, sums[due] > 0};
  if (sums[failed] > 0)
    run_collectively(comm_, [&] {
      if (share.error && !starved) std::rethrow_exception(share.error);
    });
  if (sums[out_of_memory] > 0) {
    if (sums[several_graphs] > 0)
      keep_one_graph();
    else
      shrink_micro_batch(batch, share.error);
    return Verdict::again;
  }
  const bool finite = sums[unusable] == 0 && sums[items] > 0;
  share.count = sums[items], share.documents = sums[documents], share.tokens = sums[tokens];
  share.loss = finite ? sums[loss] : std::nan("");
  share.norm = finite ? std::sqrt(sums[squares]) / (share.count * scaler_.scale()) : std::nan("");
  return finite ? Verdict::update : Verdict::skip;
}

std::uint64_t Trainer::seed(std::int64_t micro_batch) const {
  return micro_batch_seed(static_cast<std::uint64_t>(options_.seed), state_.step, micro_batch);
}

void Trainer::count(const StepReport& report) {
  ++state_.step;
  state_.skipped += report.skipped;
  state_.skipped_in_a_row = report.skipped ? state_.skipped_in_a_row + 1 : 0;
  state_.documents += report.documents;
  state_.tokens += report.tokens;
  scaler_.update(!report.skipped);
  if (context_.log && comm_.is_root() && report.skipped)
    context_.log->warn("step {} is skipped: gradients were not finite{}", report.step,
                       scaler_.dynamic() ? fmt::format("; loss scale {:g} -> {:g}",
                                                       report.loss_scale, scaler_.scale())
                                         : "");
  slow_ranks_.after_step(report);
  if (metrics_) metrics_->step(report);
  if (context_.report) context_.report(report);
  const bool learnt_nothing = state_.skipped == total_steps();
  if (state_.skipped_in_a_row > options_.max_skipped || learnt_nothing)
    throw Error(ExitCode::diverged,
                fmt::format("training diverged: {} updates in a row were not finite (the last at "
                            "step {}); lower the learning rates, or use --train.precision fp32",
                            state_.skipped_in_a_row, state_.step),
                true);
}

void Trainer::end_of_step() {
  const bool due = options_.validate_every > 0
                       ? state_.step % options_.validate_every == 0 || state_.step == total_steps()
                       : batch_in_hand_.ends_epoch || state_.step == total_steps();
  if (due && !sampler_.validation().empty()) validate();
  if (checkpointer_) checkpointer_->after_step(*this, writers_, stop_ || over());
  if (trace_ && trace_->complete(state_.step, false))
    run_collectively(comm_, [&] { trace_->write(); });
}

// The training is over, its task has ended it, or somebody asked.
void Trainer::end_of_steps() {
  if (checkpointer_) checkpointer_->finish();
  if (trace_ && trace_->complete(state_.step, true))
    run_collectively(comm_, [&] { trace_->write(); });
  if (stop_ && !over())
    throw Error(
        ExitCode::requeue,
        fmt::format("stopped at step {} of {} as asked; start the same command again to go on",
                    state_.step, total_steps()),
        true);
}

}  // namespace gpuhpc
