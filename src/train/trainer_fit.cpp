// What fits memory: the micro-batch, tried at the start and halved when a step runs out of it.
#include <ATen/DeviceAccelerator.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/train/sampler.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {
namespace {

// Trials on a processor end in a refused allocation, not in a program that the system kills.
class TrialLimit {
 public:
  // No limit where nothing is known to be free.
  explicit TrialLimit(std::int64_t free) : set_(free > 0) {
    if (set_) limit_host_memory(host_memory().used + free);
  }
  ~TrialLimit() {
    if (set_) limit_host_memory(0);
  }
  TrialLimit(const TrialLimit&) = delete;
  TrialLimit& operator=(const TrialLimit&) = delete;

 private:
  bool set_;
};

}  // namespace

std::int64_t Trainer::my_part_of_free_memory() const {
  const c10::Device device = model_.parameters().device();
  return free_memory(device) / (device.is_cpu() ? comm_.node_size() : 1);
}

// The short batch at the end of an epoch is cut into quarters too, or two ranks would add up other
// pieces than one.
int Trainer::fewest_pieces(std::span<const std::int64_t> batch) const {
  const bool shortened =
      options_.batch_tokens == 0 && std::ssize(batch) < batch_ && state_.micro_batch > 0;
  return shortened && context_.parallel.reproducible ? std::max(4, comm_.size()) : comm_.size();
}

std::int64_t Trainer::largest_micro_batch(std::span<const std::int64_t> batch) const {
  return batch_shape(std::ssize(batch), state_.micro_batch, fewest_pieces(batch)).micro_batch;
}

// --train.micro-batch auto: tried on the longest documents, so that nothing later needs more. On
// processors, whose caches are small, the largest is seldom the fastest: those that fit are timed.
// Where a plan foresaw an answer the trials begin with it.
void Trainer::prepare() {
  if (state_.micro_batch >= 0) return;
  const bool timed = model_.parameters().is_cpu(), limited = host_memory().limit > 0;
  // Trials are collective: all ranks begin with the same one. (And all have seen who was limited:
  // replicas share the limit.)
  const ForeseenBatch foreseen{comm_.all_reduce_value(context_.foreseen.fits, Reduce::min),
                               comm_.all_reduce_value(context_.foreseen.fastest, Reduce::min)};
  const TrialLimit limit_of_trials(timed && !limited ? my_part_of_free_memory() : 0);
  std::int64_t trials = 0, limit = block_count(sampler_.largest_batch(), comm_.size());
  for (const CorpusItems& corpus : corpora()) {
    std::vector<std::int64_t> items(static_cast<std::size_t>(corpus.items.size()));
    std::iota(items.begin(), items.end(), corpus.items.first);
    std::ranges::stable_sort(items, std::greater{},
                             [&](std::int64_t item) { return task_.cost(item); });
    limit = largest_fitting(
        limit,
        [&](std::int64_t size) {
          ++trials;
          return fits(
              std::span(items).first(std::min(items.size(), static_cast<std::size_t>(size))));
        },
        foreseen.fits);
  }
  if (limit == 0)
    throw Error(ExitCode::out_of_memory,
                "out of memory with the longest document alone; cut documents shorter or let fewer "
                "layers learn",
                true);
  state_.micro_batch = timed ? fastest_of(limit, foreseen.fastest, trials) : limit;
  if (!context_.log || !comm_.is_root()) return;
  const std::string plan = foreseen.fits > 0
                               ? fmt::format("; the plan foresaw {}{}", foreseen.fits,
                                             timed ? fmt::format(" and {}", foreseen.fastest) : "")
                               : "";
  context_.log->info("--train.micro-batch auto: {} documents at once fit memory{} ({} trials{})",
                     limit, timed ? fmt::format(", {} are fastest", state_.micro_batch) : "",
                     trials, plan);
}

std::int64_t Trainer::fastest_of(std::int64_t limit, std::int64_t foreseen, std::int64_t& trials) {
  Sampler sampler = sampler_;
  const std::vector<std::int64_t> usual = sampler.next();
  return fastest_size(
      std::min(limit, std::ssize(usual)),
      [&](std::int64_t size) {
        const auto items = std::span(usual).first(static_cast<std::size_t>(size));
        fits(items);  // its memory is there from here on
        const auto start = std::chrono::steady_clock::now();
        fits(items);
        ++trials;
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        return comm_.all_reduce_value(taken.count(), Reduce::max);
      },
      foreseen);
}

bool Trainer::fits(std::span<const std::int64_t> items) {
  std::exception_ptr error;
  constexpr std::size_t bytes = 512 << 20;
  try {
    load_now(items);
    const LossSum loss = task_.loss(items, 0);
    (loss.sum * scaler_.scale()).backward();
    // On a GPU libraries and NCCL take memory of their own later.
    if (const c10::Device device = model_.parameters().device();
        device.is_cuda() && at::accelerator::getMemoryInfo(device.index()).first < bytes)
      throw Error(ExitCode::out_of_memory, "too little memory is left for libraries and NCCL");
  } catch (...) {
    error = std::current_exception();
  }
  const bool starved = is_out_of_memory(error);
  run_collectively(comm_, [&] {
    if (error && !starved) std::rethrow_exception(error);
  });
  model_.zero_gradients();
  if (!model_.parameters().is_cpu()) at::accelerator::emptyCache();
  return comm_.all_reduce_value<std::int32_t>(starved, Reduce::max) == 0;
}

void give_back_reserves(Communicator& comm, bool on_gpu) {
  if (on_gpu) at::accelerator::emptyCache();
  comm.barrier();
}

// The first answer to a batch that does not fit, where some rank kept several graphs.
void Trainer::keep_one_graph() {
  room_ = 0;
  give_back_reserves(comm_, !model_.parameters().is_cpu());
  if (context_.log && comm_.is_root())
    context_.log->warn(
        "step {}: out of memory; from now on every micro-batch of a rank but its first is computed "
        "twice",
        state_.step + 1);
}

// Global batch and learning rate stay: only the pieces get smaller.
void Trainer::shrink_micro_batch(std::span<const std::int64_t> batch,
                                 const std::exception_ptr& error) {
  const std::int64_t before = largest_micro_batch(batch);
  if (before == 1)
    run_collectively(comm_, [&] {
      if (error)
        throw Error(
            ExitCode::out_of_memory,
            fmt::format("step {}: out of memory with one document at a time; {}cut documents "
                        "shorter, let fewer layers learn, or use --parallel.strategy zero1",
                        state_.step + 1,
                        task_.scope(batch) == LossScope::item
                            ? ""
                            : "lower --train.batch, as every rank computes the loss of all "
                              "its rows, or "));
    });
  // Micro-batches that a rank adds up.
  const auto accumulation = [&] {
    return block_count(std::ssize(batch_in_hand_.pieces), std::int64_t{comm_.size()});
  };
  const std::int64_t added_up = accumulation();
  state_.micro_batch = before / 2;
  loader_.forget(), hand_.clear();
  cut(batch_in_hand_);
  for (Batch& ahead : ahead_) cut(ahead);
  give_back_reserves(comm_, !model_.parameters().is_cpu());
  if (context_.log && comm_.is_root())
    context_.log->warn(
        "step {}: out of memory with {} documents at once; the batch is computed again with {}, "
        "accumulation {} -> {}",
        state_.step + 1, before, state_.micro_batch, added_up, accumulation());
}

}  // namespace gpuhpc
