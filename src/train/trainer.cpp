#include "gpuhpc/train/trainer.hpp"

#include <ATen/DeviceAccelerator.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/train/micro_batch.hpp"

namespace gpuhpc {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

SyncOptions sync_options(const ParallelOptions& parallel) {
  return {parallel.strategy_kind() == Strategy::zero1, parallel.reduce_in_bfloat16(),
          parallel.bucket_bytes, parallel.overlap, parallel.reproducible};
}

double mean(std::span<const double> values) {
  return values.empty() ? 0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

}  // namespace

Trainer::Trainer(ParameterArena& model, const BatchSource& source, Loss loss,
                 const TrainOptions& options, const ParallelOptions& parallel, Communicator& comm,
                 TrainHooks hooks, Communicator* device_comm)
    : model_(model),
      source_(source),
      loss_(std::move(loss)),
      options_(options),
      parallel_(parallel),
      comm_(comm),
      hooks_(std::move(hooks)),
      sync_(model, comm, sync_options(parallel), device_comm, hooks_.trace),
      optimizer_(make_optimizer(
          options.optimizer, model, options.optimizer_options(), sync_.owned(),
          sync_.sharded() ? [&comm](std::span<double> norms) { comm.all_reduce(norms); }
                          : Lamb::Sum{})),
      scaler_(options.scaler_options(!model.parameters().is_cpu())) {
  if (source.size() == 0)
    throw input_error("there is nothing to train on: no document has a target");
  state_.micro_batch = options.micro_batch;
  batches_ = batches_of(0);
  std::int64_t total = options.epochs * std::ssize(batches_);
  if (options.batch_tokens > 0) {  // the number of batches changes from epoch to epoch
    total = 0;
    for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch)
      total += std::ssize(batches_of(epoch));
  }
  schedule_ = {total, warmup_steps(options.warmup, total), options.decay_kind()};
  documents_a_step_ = options.batch_tokens > 0 ? static_cast<double>(source.size()) /
                                                     static_cast<double>(batches_.size())
                                               : static_cast<double>(options.batch);
  rule_ = rate_rule(options.rate_rule, documents_a_step_);
  batch_factor_ = batch_factor(rule_, documents_a_step_, static_cast<double>(options.base_batch));
}

StepReport Trainer::step() {
  prepare();
  Trace* const trace = hooks_.trace;
  if (trace != nullptr) trace->step_begins(state_.step + 1);
  const Span whole(trace, "step", state_.step + 1);
  const auto start = std::chrono::steady_clock::now();
  double computed = 0, summed = 0, own_tokens = 0;
  // 1 take the next global batch
  const std::vector<std::int64_t> batch = traced(trace, "data", [&] { return next_batch(); });
  double data = seconds_since(start);
  Share share;
  Verdict verdict = Verdict::again;
  while (verdict == Verdict::again) {
    // 2 forward and backward over my micro-batches; complete buckets of gradients leave meanwhile
    share = accumulate(batch);
    computed = seconds_since(start), data += share.data_seconds, own_tokens = share.tokens;
    // 3 the rest of the sum over ranks
    traced(trace, "sum", [&] { sync_.finish(share.error != nullptr); });
    summed = seconds_since(start);
    // 4 agree: did anyone fail? is everything finite? From here on `share` is that of all ranks.
    // (again: out of memory somewhere)
    verdict = traced(trace, "agreement", [&] { return agree(share, batch); });
  }
  // 5 update on the mean gradient
  const double factor = rate_factor(schedule_, state_.step) * batch_factor_,
               scale = scaler_.scale();
  if (verdict == Verdict::update) {
    traced(trace, "update", [&] {
      optimizer_->step(factor, clip_factor(share.norm, options_.clip) / (share.count * scale));
    });
    traced(trace, "gather", [&] { sync_.gather_parameters(); });
  }
  // 6 count and report
  const double seconds = seconds_since(start);
  const StepReport report{.step = state_.step + 1,
                          .epoch = state_.epoch,
                          .loss = share.loss / share.count,
                          .gradient_norm = share.norm,
                          .rate_factor = factor,
                          .skipped = verdict == Verdict::skip,
                          .documents = static_cast<std::int64_t>(share.documents),
                          .tokens = static_cast<std::int64_t>(share.tokens),
                          .micro_batch = largest_micro_batch(batch),
                          .loss_scale = scale,
                          .tokens_per_second = share.tokens / seconds,
                          .own_tokens = own_tokens,
                          .step_seconds = seconds,
                          .data_seconds = data,
                          .compute_seconds = computed - data,
                          .sum_seconds = summed - computed,
                          .update_seconds = seconds - summed};
  traced(trace, "report", [&] { count(report); });
  return report;
}

std::vector<std::vector<std::int64_t>> Trainer::batches_of(std::int64_t epoch) const {
  const auto seed = static_cast<std::uint64_t>(options_.seed);
  return options_.batch_tokens > 0
             ? global_batches_by_tokens(source_, options_.batch_tokens, seed, epoch)
             : global_batches(source_.size(), options_.batch, seed, epoch);
}

std::vector<std::int64_t> Trainer::next_batch() {
  if (state_.next_batch == std::ssize(batches_)) {
    batches_ = batches_of(++state_.epoch);
    state_.next_batch = 0;
  }
  return batches_.at(static_cast<std::size_t>(state_.next_batch++));
}

Trainer::Share Trainer::accumulate(std::span<const std::int64_t> batch) {
  Share share;
  Trace* const trace = hooks_.trace;
  const auto data = [&](const auto& take) {
    const auto start = std::chrono::steady_clock::now();
    auto taken = traced(trace, "data", take);
    share.data_seconds += seconds_since(start);
    return taken;
  };
  sync_.begin();
  try {
    const auto micro_batches = data([&] {
      return cut_micro_batches(source_, batch, state_.micro_batch, fewest_pieces(batch));
    });
    const Range mine = micro_batches_of_rank(std::ssize(micro_batches), comm_.rank(), comm_.size());
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      const std::vector<std::int64_t>& items = micro_batches[static_cast<std::size_t>(i)];
      const PackedIds packed = data([&] { return source_.pack(items); });
      const LossSum loss = traced(trace, "forward", [&] {
        return loss_(packed,
                     micro_batch_seed(static_cast<std::uint64_t>(options_.seed), state_.step, i));
      });
      if (i + 1 == mine.last) sync_.arm();
      traced(trace, "backward",
             [&] { (scaler_.dynamic() ? loss.sum * scaler_.scale() : loss.sum).backward(); });
      share.loss += traced(trace, "loss", [&] { return loss.sum.item<double>(); });
      share.count += loss.count;
      share.documents += static_cast<double>(items.size());
      if (i + 1 < mine.last && ends_quarter(i, std::ssize(micro_batches))) sync_.keep();
      for (const std::int64_t item : items)
        share.tokens += static_cast<double>(source_.length(item));
    }
  } catch (...) {
    share.error =
        std::current_exception();  // the others are waiting in the sum: say so in the agreement
  }
  return share;
}

Trainer::Verdict Trainer::agree(Share& share, std::span<const std::int64_t> batch) {
  double square = 0;  // of the sum over ranks: under ddp all ranks hold it, and all must clip
                      // alike, so rank 0's counts
  const bool counts = comm_.is_root() || sync_.sharded();
  for (const Range& range : sync_.owned())
    if (counts) square += square_sum(model_.gradients().narrow(0, range.first, range.size()));
  const bool usable = !share.error && std::isfinite(share.loss) && std::isfinite(square),
             starved = is_out_of_memory(share.error);
  const WriterStatus writer = hooks_.writer_status ? hooks_.writer_status() : WriterStatus{};
  enum {
    loss,
    items,
    documents,
    tokens,
    failed,
    out_of_memory,
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
  sums[unusable] = !usable;
  sums[squares] = usable ? square : 0;
  sums[stop] = hooks_.stop_requested && hooks_.stop_requested();
  sums[writing] = writer.writing;
  sums[not_written] = writer.failed;
  sums[due] = writer.due;
  comm_.all_reduce(std::span<double>(sums));
  stop_ = sums[stop] > 0;
  writers_ = {sums[writing] > 0, sums[not_written] > 0, sums[due] > 0};
  if (sums[failed] > 0)
    together(comm_, [&] {
      if (share.error && !starved) std::rethrow_exception(share.error);
    });
  if (sums[out_of_memory] > 0) {
    shrink_micro_batch(batch, share.error);
    return Verdict::again;
  }
  const bool finite = sums[unusable] == 0 && sums[items] > 0;
  share.count = sums[items], share.documents = sums[documents], share.tokens = sums[tokens];
  share.loss = finite ? sums[loss] : std::nan("");
  share.norm = finite ? std::sqrt(sums[squares]) / (share.count * scaler_.scale()) : std::nan("");
  return finite ? Verdict::update : Verdict::skip;
}

// The short batch at the end of an epoch is cut into quarters too, or two ranks would add up other
// pieces than one.
int Trainer::fewest_pieces(std::span<const std::int64_t> batch) const {
  const bool shortened =
      options_.batch_tokens == 0 && std::ssize(batch) < options_.batch && state_.micro_batch > 0;
  return shortened && parallel_.reproducible ? std::max(4, comm_.size()) : comm_.size();
}

std::int64_t Trainer::largest_micro_batch(std::span<const std::int64_t> batch) const {
  return batch_shape(std::ssize(batch), state_.micro_batch, fewest_pieces(batch)).micro_batch;
}

// Global batch and learning rate stay: only the pieces get smaller.
void Trainer::shrink_micro_batch(std::span<const std::int64_t> batch,
                                 const std::exception_ptr& error) {
  const std::int64_t before = largest_micro_batch(batch);
  if (before == 1)
    together(comm_, [&] {
      if (error)
        throw Error(ExitCode::out_of_memory,
                    fmt::format("step {}: out of memory with one document at a time; lower "
                                "--train.max-length, train "
                                "fewer --train.layers, or use --parallel.strategy zero1",
                                state_.step + 1));
    });
  state_.micro_batch = before / 2;
  if (!model_.parameters().is_cpu()) at::accelerator::emptyCache();
  if (hooks_.log && comm_.is_root())
    hooks_.log->warn(
        "step {}: out of memory with {} documents at once; the batch is computed again with {}",
        state_.step + 1, before, state_.micro_batch);
}

// --train.micro-batch auto: tried on the longest documents, so that nothing later needs more.
void Trainer::prepare() {
  if (state_.micro_batch >= 0) return;
  std::vector<std::int64_t> items(static_cast<std::size_t>(source_.size()));
  std::iota(items.begin(), items.end(), std::int64_t{0});
  std::ranges::stable_sort(items, std::greater{},
                           [&](std::int64_t item) { return source_.length(item); });
  std::int64_t largest = 0;
  for (const auto& batch : batches_) largest = std::max(largest, std::ssize(batch));
  const std::int64_t limit = block_count(largest, comm_.size());
  state_.micro_batch = largest_fitting(limit, [&](std::int64_t size) {
    return fits(std::span(items).first(static_cast<std::size_t>(size)));
  });
  if (state_.micro_batch == 0)
    throw Error(ExitCode::out_of_memory,
                "out of memory with the longest document alone; lower --train.max-length or train "
                "fewer --train.layers",
                true);
}

bool Trainer::fits(std::span<const std::int64_t> items) {
  std::exception_ptr error;
  try {
    const LossSum loss = loss_(source_.pack(items), 0);
    (loss.sum * scaler_.scale()).backward();
  } catch (...) {
    error = std::current_exception();
  }
  const bool starved = is_out_of_memory(error);
  together(comm_, [&] {
    if (error && !starved) std::rethrow_exception(error);
  });
  model_.zero_gradients();
  if (!model_.parameters().is_cpu()) at::accelerator::emptyCache();
  return comm_.all_reduce_value<std::int32_t>(starved, Reduce::max) == 0;
}

void Trainer::count(const StepReport& report) {
  ++state_.step;
  state_.losses.push_back(report.skipped ? std::nan("") : report.loss);
  state_.skipped += report.skipped;
  state_.skipped_in_a_row = report.skipped ? state_.skipped_in_a_row + 1 : 0;
  state_.documents += report.documents;
  state_.tokens += report.tokens;
  scaler_.update(!report.skipped);
  if (hooks_.log && comm_.is_root() && report.skipped)
    hooks_.log->warn("step {} is skipped: gradients were not finite{}", report.step,
                     scaler_.dynamic() ? fmt::format("; loss scale {:g} -> {:g}", report.loss_scale,
                                                     scaler_.scale())
                                       : "");
  if (hooks_.report) hooks_.report(report);
  if (state_.skipped_in_a_row > options_.max_skipped)
    throw Error(ExitCode::diverged,
                fmt::format("training diverged: {} updates in a row were not finite (the last at "
                            "step {}); lower --train.encoder-lr and "
                            "--train.head-lr, or use --train.precision fp32",
                            state_.skipped_in_a_row, state_.step),
                true);
}

TrainerState Trainer::state() const {
  TrainerState state = state_;
  state.loss_scale = scaler_.scale();
  state.good_steps = scaler_.good_steps();
  return state;
}

void Trainer::restore(const TrainerState& state) {
  state_ = state;
  batches_ = batches_of(state.epoch);
  scaler_.restore(state.loss_scale, state.good_steps);
}

TrainSummary Trainer::run() {
  const auto start = std::chrono::steady_clock::now();
  TrainSummary own;
  double steps = 0;  // seconds in them
  std::optional<Progress> progress;
  prepare();
  if (hooks_.log && comm_.is_root()) hooks_.log->info(describe());
  if (hooks_.log) progress.emplace(hooks_.log, "training", total_steps(), "steps", comm_.is_root());
  if (progress && state_.step > 0) progress->resume(state_.step);
  while (state_.step < total_steps() &&
         (!hooks_.before_step || hooks_.before_step(*this, state_.step))) {
    const StepReport report = step();
    ++own.own_steps, own.own_tokens += static_cast<std::int64_t>(report.own_tokens),
        steps += report.step_seconds;
    own.data_seconds += report.data_seconds, own.compute_seconds += report.compute_seconds;
    own.sum_seconds += report.sum_seconds, own.update_seconds += report.update_seconds;
    if (progress)
      progress->advance(
          1, fmt::format("loss {:.4f}, {:.0f} tokens/s", report.loss, report.tokens_per_second));
    end_of_step();
  }
  if (progress) progress->finish();
  own.seconds = seconds_since(start);
  own.other_seconds = own.seconds - steps;
  return summarise(own);
}

void Trainer::end_of_step() {
  const bool over = state_.step == total_steps();
  if (hooks_.validate && state_.next_batch == std::ssize(batches_)) {
    const double value = hooks_.validate(*this);
    if (value > state_.best_metric) state_.best_metric = value, state_.best_step = state_.step;
    state_.validation.push_back(value);
  }
  if (hooks_.checkpoint) hooks_.checkpoint(*this, writers_, stop_ || over);
  if (hooks_.trace != nullptr && hooks_.trace->complete(state_.step, stop_ || over))
    together(comm_, [&] { hooks_.trace->write(); });
  if (stop_ && !over)
    throw Error(
        ExitCode::requeue,
        fmt::format("stopped at step {} of {} as asked; start the same command again to go on",
                    state_.step, total_steps()),
        true);
}

double Trainer::mean_loss(const BatchSource& items) {
  const c10::NoGradGuard no_grad;
  std::vector<std::int64_t> all(static_cast<std::size_t>(items.size()));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  const std::int64_t at_once =
      state_.micro_batch > 0
          ? state_.micro_batch
          : batch_shape(std::llround(documents_a_step_), state_.micro_batch, comm_.size())
                .micro_batch;
  const auto micro_batches =
      cut_micro_batches(items, all, at_once, /*ranks=*/1);  // the same ones on any number of ranks
  const Range mine = blocks_of_rank(std::ssize(micro_batches), comm_.rank(), comm_.size());
  std::vector<double> terms;  // sum, count, sum, count ..
  together(comm_, [&] {
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      const LossSum loss = loss_(items.pack(micro_batches[static_cast<std::size_t>(i)]), 0);
      terms.insert(terms.end(), {loss.sum.item<double>(), loss.count});
    }
  });
  terms =
      comm_.all_gather_vector(std::span<const double>(terms));  // in the order of the micro-batches
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < terms.size(); i += 2) sum += terms[i], count += terms[i + 1];
  return sum / count;
}

TrainSummary Trainer::summarise(TrainSummary summary) const {
  std::vector<double> losses;
  std::ranges::copy_if(state_.losses, std::back_inserter(losses),
                       [](double loss) { return !std::isnan(loss); });
  const std::size_t tenth = std::min(losses.size(), std::max<std::size_t>(1, losses.size() / 10));
  summary.steps = state_.step;
  summary.skipped = state_.skipped;
  summary.documents = state_.documents;
  summary.tokens = state_.tokens;
  summary.first_loss = mean(std::span<const double>(losses).first(tenth));
  summary.last_loss = mean(std::span<const double>(losses).last(tenth));
  summary.validation = state_.validation;
  return summary;
}

std::string Trainer::describe() const {
  const auto documents = static_cast<std::int64_t>(std::llround(documents_a_step_));
  const BatchShape shape = batch_shape(documents, state_.micro_batch, comm_.size());
  const bool exact = options_.batch_tokens == 0 &&
                     shape.ranks * shape.micro_batch * shape.accumulation == documents;
  std::string base, peak;
  for (const ParameterArena::Group& group : model_.groups()) {
    base += fmt::format("{}{} {:g}", base.empty() ? "" : ", ", group.name, group.learning_rate);
    peak += fmt::format("{}{:g}", peak.empty() ? "" : ", ", group.learning_rate * batch_factor_);
  }
  const std::string batch =
      options_.batch_tokens > 0
          ? fmt::format("{} tokens (about {} documents)", options_.batch_tokens, documents)
          : fmt::format("{} documents", documents);
  return fmt::format(
      "training {} parameters on {} documents, {} epochs, {} steps: {} ranks x micro-batch {} x "
      "accumulation {} {} global batch {}; "
      "base rates {} for a batch of {}, rule {}, peak rates {} after {} steps, then {}; {}, {}, "
      "{}; seed {}",
      model_.parameter_count(), source_.size(), options_.epochs, total_steps(), shape.ranks,
      shape.micro_batch, shape.accumulation, exact ? "=" : ">=", batch, base, options_.base_batch,
      name_of(rule_), peak, schedule_.warmup_steps, options_.decay, options_.optimizer,
      name_of(options_.precision_kind(!model_.parameters().is_cpu())), parallel_.strategy,
      options_.seed);
}

}  // namespace gpuhpc
