#include "gpuhpc/train/trainer.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/together.hpp"

namespace gpuhpc {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Schedule schedule_of(const TrainOptions& options, std::int64_t items) {
  const std::int64_t total = options.epochs * block_count(items, options.batch);
  return {total, warmup_steps(options.warmup, total), options.decay_kind()};
}

double mean(std::span<const double> values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

Trainer::Trainer(ParameterArena& model, const BatchSource& source, Loss loss, const TrainOptions& options, Communicator& comm,
                 TrainHooks hooks)
    : model_(model),
      source_(source),
      loss_(std::move(loss)),
      options_(options),
      comm_(comm),
      hooks_(std::move(hooks)),
      optimizer_(model, {options.beta1, options.beta2, options.epsilon}),
      schedule_(schedule_of(options, source.size())) {
  if (source.size() == 0) throw input_error("there is nothing to train on: no document has a target");
}

StepReport Trainer::step() {
  const auto start = std::chrono::steady_clock::now();
  const auto micro_batches = cut_micro_batches(source_, next_batch(), options_.micro_batch, comm_.size());
  const Range mine = blocks_of_rank(std::ssize(micro_batches), comm_.rank(), comm_.size());
  // 1 forward and backward over my micro-batches
  model_.zero_gradients();
  Share share = accumulate(std::span(micro_batches).subspan(static_cast<std::size_t>(mine.first), static_cast<std::size_t>(mine.size())));
  const double computed = seconds_since(start);
  // 2 one sum over ranks of the flat gradient
  sum_gradients();
  const double summed = seconds_since(start);
  // 3 agree: did anyone fail? is everything finite? From here on `share` and `norm` are those of all ranks
  double norm = gradient_norm(model_, {0, model_.capacity()});
  const bool finite = agree(share, norm);
  // 4 optimizer, on the mean gradient
  const double factor = rate_factor(schedule_, step_);
  if (finite) optimizer_.step(factor, clip_factor(norm, options_.clip) / share.count);
  // 5 count
  ++step_;
  skipped_in_a_row_ = finite ? 0 : skipped_in_a_row_ + 1;
  // 6 report
  const double seconds = seconds_since(start);
  const StepReport report{.step = step_,
                          .epoch = epoch_,
                          .loss = share.loss / share.count,
                          .gradient_norm = norm,
                          .rate_factor = factor,
                          .skipped = !finite,
                          .documents = static_cast<std::int64_t>(share.documents),
                          .tokens = static_cast<std::int64_t>(share.tokens),
                          .tokens_per_second = share.tokens / seconds,
                          .compute_seconds = computed,
                          .sum_seconds = summed - computed,
                          .update_seconds = seconds - summed};
  if (hooks_.report) hooks_.report(report);
  if (skipped_in_a_row_ > options_.max_skipped)
    throw Error(ExitCode::diverged, fmt::format("training diverged: {} updates in a row were not finite (the last at step {}); lower "
                                                "--train.encoder-lr and --train.head-lr, or use --train.precision fp32",
                                                skipped_in_a_row_, step_));
  return report;
}

std::vector<std::int64_t> Trainer::next_batch() {
  if (next_ == batches_.size()) {
    batches_ = global_batches(source_.size(), options_.batch, static_cast<std::uint64_t>(options_.seed), ++epoch_);
    next_ = 0;
  }
  return batches_.at(next_++);
}

Trainer::Share Trainer::accumulate(std::span<const std::vector<std::int64_t>> micro_batches) {
  Share share;
  try {
    for (const std::vector<std::int64_t>& items : micro_batches) {
      const LossSum loss = loss_(source_.pack(items));
      loss.sum.backward();
      share.loss += loss.sum.item<double>();
      share.count += loss.count;
      share.documents += static_cast<double>(items.size());
      for (const std::int64_t item : items) share.tokens += static_cast<double>(source_.length(item));
    }
  } catch (...) {
    share.error = std::current_exception();  // the others are waiting in the sum: say so in the agreement
  }
  return share;
}

void Trainer::sum_gradients() {
  if (comm_.size() == 1) return;
  at::Tensor host = model_.gradients().is_cpu() ? model_.gradients() : model_.gradients().to(at::kCPU);
  comm_.all_reduce(host.mutable_data_ptr<float>(), host.numel(), DataType::float32, Reduce::sum);
  if (!model_.gradients().is_cpu()) model_.gradients().copy_(host);
}

bool Trainer::agree(Share& share, double& norm) {
  const bool usable = !share.error && std::isfinite(share.loss) && std::isfinite(norm);
  // Sums over ranks; the norm is rank 0's, so that all clip alike.
  double sums[] = {usable ? share.loss : 0,
                   share.count,
                   share.documents,
                   share.tokens,
                   share.error ? 1.0 : 0.0,
                   usable ? 0.0 : 1.0,
                   usable && comm_.is_root() ? norm : 0};
  comm_.all_reduce(std::span<double>(sums));
  const bool failed = sums[4] > 0, finite = sums[5] == 0 && sums[1] > 0;
  if (failed)
    together(comm_, [&] {
      if (share.error) std::rethrow_exception(share.error);
    });
  share.count = sums[1], share.documents = sums[2], share.tokens = sums[3];
  share.loss = finite ? sums[0] : std::nan("");
  norm = finite ? sums[6] / share.count : std::nan("");
  return finite;
}

std::string Trainer::describe() const {
  const std::int64_t ranks = comm_.size(), wanted = options_.micro_batch > 0 ? block_count(options_.batch, options_.micro_batch) : 0;
  const std::int64_t micro_batches = std::max(wanted, std::min(ranks, options_.batch));
  std::string rates;
  for (const ParameterArena::Group& group : model_.groups())
    rates += fmt::format("{}{} {:g}", rates.empty() ? "" : ", ", group.name, group.learning_rate);
  return fmt::format("training {} parameters on {} documents: {} epochs, {} steps of {} documents (micro-batches: {}, ranks: {}); "
                     "peak learning rates {} after {} steps, then {}; seed {}",
                     model_.parameter_count(), source_.size(), options_.epochs, total_steps(), options_.batch, micro_batches, ranks, rates,
                     schedule_.warmup_steps, options_.decay, options_.seed);
}

TrainSummary Trainer::run() {
  const auto start = std::chrono::steady_clock::now();
  TrainSummary summary;
  std::vector<double> losses;
  std::optional<Progress> progress;
  if (hooks_.log && comm_.is_root()) hooks_.log->info(describe());
  if (hooks_.log) progress.emplace(hooks_.log, "training", total_steps(), "steps", comm_.is_root());
  while (step_ < total_steps()) {
    const StepReport report = step();
    summary.skipped += report.skipped;
    summary.documents += report.documents;
    summary.tokens += report.tokens;
    summary.compute_seconds += report.compute_seconds;
    summary.sum_seconds += report.sum_seconds;
    summary.update_seconds += report.update_seconds;
    if (!report.skipped) losses.push_back(report.loss);
    if (progress) progress->advance(1, fmt::format("loss {:.4f}, {:.0f} tokens/s", report.loss, report.tokens_per_second));
    if (hooks_.validate && next_ == batches_.size()) summary.validation.push_back(hooks_.validate());
  }
  if (progress) progress->finish();
  const std::size_t tenth = std::max<std::size_t>(1, losses.size() / 10);
  const std::span<const double> all(losses);
  summary.steps = step_;
  summary.first_loss = mean(all.first(std::min(tenth, all.size())));
  summary.last_loss = mean(all.last(std::min(tenth, all.size())));
  summary.seconds = seconds_since(start);
  return summary;
}

}  // namespace gpuhpc
