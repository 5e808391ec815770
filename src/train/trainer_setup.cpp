// What surrounds the steps: how they are set up, validation, and the files of a training.
#include <ATen/DeviceAccelerator.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/nccl.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/comm/thread.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/train/sampler.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

SyncOptions sync_options(const TrainContext& c, bool between_gpus) {
  const ParallelOptions& parallel = c.parallel;
  return {parallel.strategy_kind() == Strategy::zero1,
          parallel.reduce_in_bfloat16(),
          parallel.bucket(c.device.cuda),
          parallel.overlap,
          parallel.reproducible,
          between_gpus && share_a_process(c.comm)};
}

// None unless every rank has a GPU.
std::unique_ptr<Communicator> make_between_gpus(const TrainContext& c) {
  if (c.between_gpus) return c.between_gpus(c.comm);
  if (c.comm.size() == 1 || c.comm.all_reduce_value<std::int32_t>(c.device.cuda, Reduce::min) == 0)
    return nullptr;
  // NCCL takes its memory from what LibTorch leaves, and an earlier stage's tensors may have left
  // most of the GPU in LibTorch's reserve.
  give_back_reserves(c.comm, true);
  return make_nccl_communicator(c.comm, make_nccl_api(c.device.index), c.parallel);
}

std::optional<Trace> make_trace(const TrainContext& c) {
  if (c.profile.range().size() == 0) return std::nullopt;
  return Trace(c.profile.range(),
               c.run_folder / "trace" / c.stage / fmt::format("rank-{:05d}.json", c.comm.rank()),
               c.comm.rank(), c.comm.host());
}

}  // namespace

Trainer::Trainer(ParameterArena& model, Task& task, const TrainOptions& options,
                 TrainContext context, std::optional<Course> course)
    : model_(model),
      task_(task),
      options_(options),
      context_(std::move(context)),
      comm_(context_.comm),
      course_(course ? *course : options.course()),
      batch_(options.global_batch(comm_.size())),
      between_gpus_(make_between_gpus(context_)),
      trace_(make_trace(context_)),
      sync_(model, comm_, sync_options(context_, between_gpus_ != nullptr), between_gpus_.get(),
            trace_ ? &*trace_ : nullptr),
      optimizer_(make_optimizer(
          options.optimizer, model, options.optimizer_options(), sync_.owned(),
          sync_.sharded() ? [&comm = comm_](std::span<double> norms) { comm.all_reduce(norms); }
                          : Lamb::Sum{})),
      scaler_(options.scaler_options(model.parameters().device())),
      sampler_(task, options, course_, batch_),
      loader_(task, context_.loader.threads(context_.device.threads)),
      clock_(model.parameters().device()),
      schedule_{sampler_.total_steps(), warmup_steps(course_.warmup, sampler_.total_steps()),
                course_.decay},
      rule_(rate_rule(options.rate_rule)),
      batch_factor_(
          batch_factor(rule_, sampler_.full_batch(), static_cast<double>(options.base_batch))),
      slow_ranks_(comm_, context_.log) {
  state_.micro_batch = state_.asked_micro_batch = options.micro_batch;
  state_.batch_size = options.batch_tokens > 0 ? options.batch_tokens : batch_;
  if (!context_.checkpoints.empty())
    checkpointer_.emplace(CheckpointSettings{context_.checkpoints, context_.task, options.keep},
                          options, comm_, context_.log);
}

// NCCL takes its memory at its first collective: before the micro-batch is tried, and before the
// steps have filled the GPU.
void Trainer::warm_up() {
  if (between_gpus_ != nullptr) sync_.warm_up();
}

std::vector<CorpusItems> Trainer::corpora() const {
  if (!course_.corpora.empty()) return course_.corpora;
  return {{{0, task_.size()}}};
}

void check_one_precision(Communicator& comm, Precision precision) {
  const auto mine = static_cast<std::int32_t>(precision);
  const auto first = static_cast<Precision>(comm.all_reduce_value(mine, Reduce::min)),
             last = static_cast<Precision>(comm.all_reduce_value(mine, Reduce::max));
  if (first != last)
    throw Error(ExitCode::configuration,
                fmt::format("--train.precision auto is {} on some ranks of this run and {} on "
                            "others, whose gradients are not to be mixed; give one of the two",
                            name_of(first), name_of(last)),
                true);
}

// What is asked and never reached.
void Trainer::warn_of_limits() const {
  if (!context_.log || !comm_.is_root() || total_steps() == 0) return;
  const auto steps = static_cast<double>(total_steps());
  if (course_.warmup >= 1 && course_.warmup > steps)
    context_.log->warn(
        "--train.warmup {:.0f} is longer than the {:.0f} updates of this training: the rates rise "
        "to their peak over all of them and never fall; give fewer, or a share such as .1",
        course_.warmup, steps);
  if (options_.batch_tokens == 0 && sampler_.largest_batch() < batch_)
    context_.log->warn(
        "no batch of this training has {} documents: the largest has {}, and the rates are those "
        "of that size",
        batch_, sampler_.largest_batch());
}

std::int64_t Trainer::load_checkpoint() { return checkpointer_ ? checkpointer_->resume(*this) : 0; }

// From the newest checkpoint, and the files of what is watched as far as it goes.
void Trainer::resume() {
  load_checkpoint();
  const Range chosen = context_.profile.range();
  on_root(comm_, [&] {
    if (!context_.folder.empty()) {
      metrics_.emplace(context_.checkpoints / "metrics.jsonl",
                       context_.run_folder / "events" / context_.stage, model_, context_.device,
                       comm_.host());
      metrics_->begin(state_.step);
    }
    if (chosen.size() > 0) fs::remove_all(context_.run_folder / "trace" / context_.stage);
  });
  if (chosen.size() > 0 && (chosen.last <= state_.step + 1 || chosen.first > total_steps()) &&
      context_.log && comm_.is_root())
    context_.log->warn(
        "--profile.steps {}: there will be no trace of the stage {}, this start makes the updates "
        "{} to {}",
        context_.profile.steps, context_.stage, state_.step + 1, total_steps());
}

bool Trainer::over() const {
  return state_.step == total_steps() ||
         (options_.patience > 0 && state_.not_better >= options_.patience);
}

void Trainer::validate() {
  const std::vector<std::int64_t>& items = sampler_.validation();
  std::vector<std::pair<std::string, double>> values{{"loss", 0}};
  std::string of_each;
  // Losses of several kinds weigh the same; a perplexity is that of all tokens.
  const bool of_tokens = task_.has_perplexity();
  LossTotal all;
  for (const CorpusItems& corpus : corpora()) {  // no batch holds items of two
    const auto first = std::ranges::lower_bound(items, corpus.items.first),
               last = std::ranges::lower_bound(items, corpus.items.last);
    if (first == last) continue;
    const LossTotal total = loss_of({first, last});
    const double loss = total.sum / total.count;
    all.sum += of_tokens ? total.sum : loss, all.count += of_tokens ? total.count : 1;
    if (corpus.name.empty()) continue;
    values.emplace_back("loss_" + corpus.name, loss);
    of_each += fmt::format("{}{} {:.5f}", of_each.empty() ? " (" : ", ", corpus.name, loss);
  }
  const double loss = values.front().second = all.sum / all.count;
  state_.validated_at = state_.step, state_.metric = -loss;
  if (of_tokens) values.emplace_back("perplexity", std::exp(loss));
  const std::string name = task_.figure_name();
  if (!name.empty()) {
    state_.metric = task_.figure(rows_of_all(items), items, comm_);
    if (!std::isfinite(state_.metric))
      throw Error(ExitCode::configuration,
                  fmt::format("{} of the {} documents to validate on is no number, and cannot tell "
                              "the best model; hold out more of them, or choose another figure",
                              name, items.size()),
                  true);
    values.emplace_back(name, state_.metric);
  }
  const bool better = state_.metric > state_.best_metric;
  state_.not_better = better ? 0 : state_.not_better + 1;
  if (better) state_.best_metric = state_.metric, state_.best_step = state_.step;
  on_root(comm_, [&] {
    if (!metrics_) return;
    const c10::NoGradGuard no_grad;
    metrics_->validation(state_.step, batch_in_hand_.epoch, values, task_.samples());
  });
  if (!context_.log || !comm_.is_root()) return;
  context_.log->info("epoch {}: validation loss {:.5f}{}{} on {} documents{}",
                     batch_in_hand_.epoch + 1, loss, of_each.empty() ? "" : of_each + ")",
                     name.empty() ? "" : fmt::format(", {} {:.5f}", name, state_.metric),
                     items.size(), better ? ", the best so far" : "");
  if (over() && state_.step < total_steps())
    context_.log->info("{} validations in a row were not the best: training ends at step {} of {}",
                       state_.not_better, state_.step, total_steps());
}

// Without a graph memory is no question: what one rank computes at once in training, unless the
// user says otherwise.
std::int64_t Trainer::items_at_once() const {
  if (options_.eval_batch > 0) return options_.eval_batch;
  return state_.micro_batch > 0
             ? state_.micro_batch
             : batch_shape(std::llround(sampler_.full_batch()), state_.micro_batch, comm_.size())
                   .micro_batch;
}

Trainer::LossTotal Trainer::loss_of(std::span<const std::int64_t> items) {
  const c10::NoGradGuard no_grad;
  const std::int64_t at_once = items_at_once();
  const bool of_items = task_.scope(items) == LossScope::item;
  Pieces pieces;  // the same ones on any number of ranks
  if (of_items)
    pieces = cut_micro_batches(task_, items, at_once, /*ranks=*/1);
  else
    for (const std::int64_t size = std::llround(sampler_.full_batch()); !items.empty();
         items = items.subspan(pieces.back().size()))
      pieces.emplace_back(items.begin(), items.begin() + std::min(size, std::ssize(items)));
  const Range mine = blocks_of_rank(std::ssize(pieces), comm_.rank(), comm_.size());
  std::vector<double> terms;  // sum, count, sum, count ..
  run_collectively(comm_, [&] {
    std::vector<at::Tensor> sums;  // read together: each read would make the host wait for a GPU
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      const auto& piece = pieces[static_cast<std::size_t>(i)];
      const LossSum loss = loss_without_graph(piece, at_once);
      // A loss of a whole batch weighs as its rows do: the last piece is a short one.
      const double count = of_items ? loss.count : static_cast<double>(piece.size());
      sums.push_back(loss.sum * (count / loss.count));
      terms.insert(terms.end(), {0, count});
    }
    if (sums.empty()) return;
    const at::Tensor values = at::stack(sums).to(at::kCPU, at::kDouble);
    for (std::int64_t i = 0; i < values.numel(); ++i)
      terms[2 * static_cast<std::size_t>(i)] = values.const_data_ptr<double>()[i];
  });
  terms = comm_.all_gather_v(std::span<const double>(terms));  // in the order of the pieces
  LossTotal total;
  for (std::size_t i = 0; i < terms.size(); i += 2)
    total.sum += terms[i], total.count += terms[i + 1];
  return total;
}

void Trainer::load_now(std::span<const std::int64_t> items) {
  hand_ = {task_.load(items, std::nullopt)};
  task_.take(hand_.front());
}

LossSum Trainer::loss_without_graph(std::span<const std::int64_t> items, std::int64_t at_once) {
  if (task_.scope(items) == LossScope::item) {
    load_now(items);
    return task_.loss(items, std::nullopt);
  }
  return task_.batch_loss(rows_without_graph(items, at_once), items);
}

at::Tensor Trainer::rows_without_graph(std::span<const std::int64_t> items, std::int64_t at_once) {
  std::vector<at::Tensor> rows;
  for (std::size_t first = 0; first < items.size(); first += static_cast<std::size_t>(at_once)) {
    const auto part =
        items.subspan(first, std::min(static_cast<std::size_t>(at_once), items.size() - first));
    load_now(part);
    rows.push_back(task_.represent(part, std::nullopt).to(at::kFloat));
  }
  return at::cat(rows);
}

// Each rank computes its share.
at::Tensor Trainer::rows_of_all(std::span<const std::int64_t> items) {
  const c10::NoGradGuard no_grad;
  const Range mine = blocks_of_rank(std::ssize(items), comm_.rank(), comm_.size());
  std::vector<float> own;
  run_collectively(comm_, [&] {
    if (mine.size() == 0) return;
    const at::Tensor rows = rows_without_graph(items.subspan(static_cast<std::size_t>(mine.first),
                                                             static_cast<std::size_t>(mine.size())),
                                               items_at_once())
                                .to(at::kCPU)
                                .contiguous();
    own.assign(rows.const_data_ptr<float>(), rows.const_data_ptr<float>() + rows.numel());
  });
  const std::vector<float> all = comm_.all_gather_v(std::span<const float>(own));
  return at::tensor(all).reshape({std::ssize(items), -1});
}

TrainerState Trainer::state() const {
  TrainerState state = state_;
  state.epoch = batch_in_hand_.epoch, state.batch = batch_in_hand_.number;
  state.loss_scale = scaler_.scale();
  state.good_steps = scaler_.good_steps();
  return state;
}

void Trainer::restore(const TrainerState& state) {
  state_ = state;
  // One that was halved on the way stays, unless the user asks for another one than then.
  if (state.asked_micro_batch != options_.micro_batch) state_.micro_batch = options_.micro_batch;
  state_.asked_micro_batch = options_.micro_batch;
  sampler_.seek(state.epoch, state.batch);
  batch_in_hand_ = {.epoch = state.epoch, .number = state.batch};
  ahead_.clear(), loader_.forget();
  scaler_.restore(state.loss_scale, state.good_steps);
}

// The best weights where those were asked for, and the stage's files.
void Trainer::finish(TrainSummary& own) {
  // The last update's weights are gathered behind its agreement.
  run_collectively(comm_, [&] { sync_.check(); });
  own.steps = state_.step;
  own.skipped = state_.skipped;
  own.documents = state_.documents;
  own.tokens = state_.tokens;
  if (total_steps() > 0) take_best();
  if (!context_.folder.empty()) {
    on_root(comm_, [&] {
      gpuhpc::copy_file(context_.checkpoints / "metrics.jsonl", context_.folder / "metrics.jsonl");
    });
    write_rank_times(context_.folder / "ranks.jsonl", own, context_.device, comm_);
  }
  if (!context_.log || !comm_.is_root()) return;
  context_.log->info("time of rank 0: {}", describe_times(own));
  for (const std::string& sentence : time_advice(own)) context_.log->warn(sentence);
}

void Trainer::take_best() {
  if (course_.restore_best && checkpointer_) checkpointer_->restore_best(*this);
}

std::string Trainer::describe() const {
  const auto documents = static_cast<std::int64_t>(std::llround(sampler_.full_batch()));
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
  const std::string epochs =
      course_.max_steps > 0 ? "" : fmt::format("{} epochs, ", course_.epochs);
  // More ranks than the micro-batches of that size: each rank gets a smaller one.
  const bool shared =
      state_.micro_batch > 0 && piece_count(documents, state_.micro_batch, comm_.size()) >
                                    block_count(documents, state_.micro_batch);
  const std::string micro_batch = fmt::format(
      "{}{}", shape.micro_batch,
      shared ? fmt::format(" (not {}: ranks share the batch)", state_.micro_batch) : "");
  return fmt::format(
      "training {} parameters on {} documents, {}{} steps: {} ranks x micro-batch {} x "
      "accumulation {} {} global batch {}; base rates {} for a batch of {}, rule {}, peak rates {} "
      "after {} steps, then {}; {}, {}, {}; {}; seed {}",
      model_.parameter_count(), sampler_.items(), epochs, total_steps(), shape.ranks, micro_batch,
      shape.accumulation, exact ? "=" : ">=", batch, base, options_.base_batch, name_of(rule_),
      peak, schedule_.warmup_steps, name_of(course_.decay), options_.optimizer,
      name_of(options_.precision_kind(model_.parameters().device())), context_.parallel.strategy,
      loader_.has_threads() ? fmt::format("{} loader threads, prefetch {}", loader_.threads(),
                                          context_.loader.prefetch)
                            : "no loader threads",
      options_.seed);
}

}  // namespace gpuhpc
