#include "gpuhpc/train/gradient_sync.hpp"

#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/comm/tensors.hpp"

namespace gpuhpc {

class GradientSync::ReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  ReadyHook(GradientSync& sync, std::size_t entry) : sync_(sync), entry_(entry) {}
  void operator()(const at::Tensor&) override { sync_.ready(entry_); }

 private:
  GradientSync& sync_;
  std::size_t entry_;
};

GradientSync::GradientSync(ParameterArena& arena, Communicator& comm, const SyncOptions& options,
                           Communicator* device_comm, Trace* trace)
    : arena_(arena),
      comm_(comm),
      channel_(device_comm != nullptr && !arena.gradients().is_cpu() ? *device_comm : comm),
      options_(options),
      trace_(trace) {
  options_.shard = options.shard && comm.size() > 1;
  options_.reproducible = options.reproducible && arena.gradients().is_cpu();
  cut_buckets();
  if (comm.size() == 1) return;
  const bool direct = arena.gradients().is_cpu() || &channel_ != &comm_;
  const auto wire = at::TensorOptions()
                        .dtype(options_.bfloat16 ? at::kBFloat16 : at::kFloat)
                        .device(direct ? arena.gradients().device() : at::Device(at::kCPU));
  copied_ = options_.bfloat16 || !direct;
  wire_ = copied_ ? at::empty({arena.capacity()}, wire) : arena.gradients();
  if (options_.shard) part_ = at::empty({arena.capacity() / comm.size()}, wire);
  if (options_.shard && !direct) host_parameters_ = at::empty({arena.capacity()}, at::kFloat);
  const std::size_t entries = arena.entries().size();
  calls_.resize(entries), last_call_.resize(entries);
  for (std::size_t i = 0; i < entries; ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(arena.leaves()[i],
                                                   std::make_unique<ReadyHook>(*this, i));
}

GradientSync::~GradientSync() {
  if (comm_.size() == 1) return;
  for (const at::Tensor& leaf : arena_.leaves())
    torch::autograd::impl::post_acc_grad_hooks(leaf).reset();
}

// Each parameter group from its end, where the backward pass starts: what is left over is the
// bucket that leaves last. Cuts fall on multiples of ranks x 16 floats, so a tensor may lie in two
// buckets.
void GradientSync::cut_buckets() {
  const std::int64_t unit = 16 * (options_.shard ? comm_.size() : 1);
  if (arena_.capacity() % unit != 0)
    throw internal_error("an arena of {} floats cannot be cut into equal parts for {} ranks",
                         arena_.capacity(), comm_.size());
  const std::int64_t size = std::max(unit, options_.bucket_bytes / 4 / unit * unit);
  std::int64_t first = 0;
  for (const ParameterArena::Group& group : arena_.groups()) {
    const bool final_group = &group == &arena_.groups().back();
    const std::int64_t last =
        final_group ? arena_.capacity() : block_count(group.range.last, unit) * unit;
    const std::size_t group_start = ranges_.size();
    for (std::int64_t end = last; end > first; end -= size)
      ranges_.push_back({std::max(first, end - size), end});
    std::reverse(ranges_.begin() + static_cast<std::ptrdiff_t>(group_start), ranges_.end());
    first = std::max(first, last);
  }
  buckets_.resize(ranges_.size());
  buckets_of_entry_.resize(arena_.entries().size());
  for (std::size_t b = 0; b < ranges_.size(); ++b) {
    if (options_.shard) owned_.push_back(part(b, comm_.rank()));
    for (std::size_t e = 0; e < arena_.entries().size(); ++e) {
      const Range& entry = arena_.entries()[e].range;
      if (entry.first >= ranges_[b].last || entry.last <= ranges_[b].first) continue;
      buckets_of_entry_[e].push_back(b);
      ++buckets_[b].entries;
    }
  }
  if (!options_.shard) owned_ = {{0, arena_.capacity()}};
}

Range GradientSync::part(std::size_t bucket, int rank) const {
  const std::int64_t size = ranges_[bucket].size() / comm_.size();
  return {ranges_[bucket].first + rank * size, ranges_[bucket].first + (rank + 1) * size};
}

void GradientSync::begin() {
  arena_.zero_gradients();
  armed_ = computed_ = false;
  next_ = 0, early_ = 0, kept_count_ = 0;
  for (Bucket& bucket : buckets_) bucket.waiting = bucket.entries, bucket.started = false;
}

void GradientSync::keep() {
  if (!options_.reproducible) return;
  const c10::NoGradGuard no_grad;
  std::size_t level = 0;
  for (; ((kept_count_ >> level) & 1) != 0; ++level) arena_.gradients().add_(kept_[level]);
  if (level == kept_.size()) kept_.push_back(at::empty_like(arena_.gradients()));
  kept_[level].copy_(arena_.gradients());
  arena_.zero_gradients();
  ++kept_count_;
}

void GradientSync::add_kept(const Range& range) {
  const at::Tensor gradients = arena_.gradients().narrow(0, range.first, range.size());
  for (std::size_t level = 0; kept_count_ >> level != 0; ++level)
    if (((kept_count_ >> level) & 1) != 0)
      gradients.add_(kept_[level].narrow(0, range.first, range.size()));
}

void GradientSync::arm() {
  armed_ = computed_ = true;
  sequence_ = 0;
  std::ranges::fill(calls_, 0);
  std::ranges::fill(last_call_, std::numeric_limits<std::int64_t>::max());
}

void GradientSync::ready(std::size_t entry) {
  if (!armed_) return;
  ++calls_[entry];
  last_call_[entry] = ++sequence_;
  if (expected_.empty()) return;
  if (calls_[entry] > expected_[entry])
    for (const std::size_t bucket : buckets_of_entry_[entry])
      if (buckets_[bucket].started)
        throw internal_error(
            "a gradient of {} came after its bucket had left; use --parallel.overlap false",
            arena_.entries()[entry].name);
  if (calls_[entry] != expected_[entry]) return;
  for (const std::size_t bucket : buckets_of_entry_[entry]) --buckets_[bucket].waiting;
  if (options_.overlap && !options_.one_process) start_ready();
}

void GradientSync::start_ready() {
  for (; next_ < order_.size(); ++next_, ++early_) {
    const auto bucket = static_cast<std::size_t>(order_[next_]);
    if (buckets_[bucket].waiting > 0) return;
    start(bucket);
  }
}

void GradientSync::start(std::size_t bucket) {
  const c10::NoGradGuard no_grad;
  const Span span(trace_, "send bucket", static_cast<std::int64_t>(bucket));
  const Range range = ranges_[bucket];
  const at::Tensor wire = wire_.narrow(0, range.first, range.size());
  add_kept(range);
  if (copied_) wire.copy_(arena_.gradients().narrow(0, range.first, range.size()));
  buckets_[bucket].started = true;
  if (options_.shard) {
    const std::int64_t size = range.size() / comm_.size();
    const at::Tensor mine = part_.narrow(0, range.first / comm_.size(), size);
    buckets_[bucket].work = start_reduce_scatter(channel_, wire, mine);
  } else {
    buckets_[bucket].work =
        start_all_reduce(channel_, wire, options_.reproducible ? Reduce::tree_sum : Reduce::sum);
  }
}

void GradientSync::complete(std::size_t bucket) {
  const c10::NoGradGuard no_grad;
  const Span span(trace_, "receive bucket", static_cast<std::int64_t>(bucket));
  buckets_[bucket].work->wait();
  buckets_[bucket].work.reset();
  const Range range = ranges_[bucket], mine = part(bucket, comm_.rank());
  if (options_.shard)
    arena_.gradients()
        .narrow(0, mine.first, mine.size())
        .copy_(part_.narrow(0, range.first / comm_.size(), mine.size()));
  else if (copied_)
    arena_.gradients()
        .narrow(0, range.first, range.size())
        .copy_(wire_.narrow(0, range.first, range.size()));
}

void GradientSync::finish(bool failed) {
  armed_ = false;
  computed_ = computed_ && !failed;
  if (comm_.size() == 1) {
    const c10::NoGradGuard no_grad;
    return add_kept({0, arena_.capacity()});
  }
  std::vector<std::int64_t> order = order_;
  if (order.empty()) {  // not learnt yet: from the end, as most backward passes go
    order.resize(ranges_.size());
    std::iota(order.rbegin(), order.rend(), std::int64_t{0});
  }
  meet();
  for (; next_ < order.size(); ++next_) start(static_cast<std::size_t>(order[next_]));
  meet();
  for (const std::int64_t bucket : order) complete(static_cast<std::size_t>(bucket));
  if (computed_ && expected_.empty()) expected_ = calls_;
  if (order_.empty()) learn();
}

void GradientSync::meet() {
  if (options_.one_process) comm_.barrier();
}

void GradientSync::learn() {
  std::vector<std::int64_t> order(ranges_.size()), done(ranges_.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t e = 0; e < calls_.size(); ++e)
    for (const std::size_t bucket : buckets_of_entry_[e])
      done[bucket] = std::max(done[bucket], last_call_[e]);
  std::ranges::stable_sort(
      order, {}, [&](std::int64_t bucket) { return done[static_cast<std::size_t>(bucket)]; });
  if (!computed_) order[0] = -1;  // rank 0 had nothing to do: the next step may know
  comm_.broadcast(std::span<std::int64_t>(order));
  if (order[0] >= 0) order_ = std::move(order);
}

void GradientSync::check() const {
  const at::Device device = arena_.gradients().device();
  if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
  channel_.check();
}

void GradientSync::gather_parameters() {
  if (!options_.shard) return;
  const c10::NoGradGuard no_grad;
  const bool direct = !host_parameters_.defined();
  at::Tensor& target = direct ? arena_.parameters() : host_parameters_;
  const at::Tensor mine = at::empty({arena_.capacity() / comm_.size()}, target.options());
  std::vector<at::Tensor> sends, receives;
  for (std::size_t b = 0; b < ranges_.size(); ++b) {
    const std::int64_t size = ranges_[b].size() / comm_.size();
    const at::Tensor send = mine.narrow(0, ranges_[b].first / comm_.size(), size);
    send.copy_(arena_.parameters().narrow(0, owned_[b].first, size));
    sends.push_back(send);
    receives.push_back(target.narrow(0, ranges_[b].first, ranges_[b].size()));
  }
  meet();
  const auto work = start_all_gathers(channel_, sends, receives);
  meet();
  work->wait();
  if (!direct) arena_.parameters().copy_(host_parameters_);
}

void GradientSync::warm_up() {
  if (comm_.size() == 1) return;
  const auto all_done = [&] { run_collectively(comm_, [&] { check(); }); };
  begin();
  all_done();
  for (std::size_t bucket = 0; bucket < ranges_.size(); ++bucket) {
    start(bucket), complete(bucket);
    all_done();
  }
  gather_parameters();
  all_done();
}

}  // namespace gpuhpc
