#pragma once
// The sum of gradients over ranks, beside the backward pass. The arena's gradient buffer is cut
// into buckets; a hook behind each parameter says when its gradient is complete, and a bucket
// leaves as soon as all of its gradients are: always in one order, the same on all ranks, learnt
// from rank 0 in the first step. Data parallel ("ddp"): every rank gets every sum. Sharded
// ("zero1", Rajbhandari et al., SC 2020, stage 1): rank r gets the sum of the r-th equal part of
// each bucket, updates that part, and the updated parts are gathered.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/profile.hpp"

namespace gpuhpc {

struct SyncOptions {
  bool shard = false;  // zero1
  // gradients travel in bf16 (sums in fp32 on the way, where the communicator does so)
  bool bfloat16 = false;
  std::int64_t bucket_bytes = 4 << 20;  // fp32 gradients a bucket
  bool overlap = true;                  // false: nothing leaves before finish()
  // The quarters of the global batch, and ranks, are added up in one binary tree, not one after the
  // other: when there are four micro-batches or more, the sum has the same bits on 1, 2 and 4
  // ranks. Takes up to two copies of the gradients. In host memory, and between ranks under ddp.
  bool reproducible = true;
  // Several GPUs are driven by threads of one process. Memory that a thread asks a driver for waits
  // for what runs on the GPUs, and others' launches wait for it: a sum that some ranks have started
  // would wait for one that cannot start it (NCCL's guide, "Using multiple NCCL communicators
  // concurrently" and "CUDA allocations"). So all ranks meet before the first sum starts and behind
  // the last one's start, and no rank takes memory between: nothing overlaps the backward pass.
  bool one_process = false;
};

class GradientSync {
 public:
  // Gradients in device memory go through `device_comm` (NCCL); without one, through host memory
  // and `comm`. For shards the arena must have been made for at least comm.size() ranks.
  GradientSync(ParameterArena& arena, Communicator& comm, const SyncOptions& options,
               Communicator* device_comm = nullptr, Trace* trace = nullptr);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // A step: begin(), backward passes, keep() between quarters, arm() before the last one of this
  // rank, finish(). A rank that computes nothing, or whose backward pass failed, calls finish() all
  // the same: it posts every collective that it has not posted yet.
  void begin();  // zero gradients
  void keep();
  void arm();
  // Afterwards the gradients of owned() are sums over all ranks. `failed`: the armed backward pass
  // did not run to its end, there is nothing to learn from it.
  void finish(bool failed = false);
  // Waits for the device, and throws peer when a collective that it waited for had failed: what was
  // computed behind it may be anything.
  void check() const;
  // After the update of owned(): all ranks hold all parameters. Nothing to do under ddp.
  void gather_parameters();
  // Every collective of a step once, each at its end on all ranks before the next one starts: NCCL
  // takes memory when it first sends a sum in a new way, which depends on the sum's size, and a
  // rank that still does so would wait for another one's sum (one_process). Gradients are lost.
  void warm_up();

  bool sharded() const { return options_.shard; }
  const std::vector<Range>& owned() const {
    return owned_;
  }  // floats of the arena that this rank updates
  const std::vector<Range>& buckets() const { return ranges_; }  // of the arena, ascending
  const std::vector<std::int64_t>& order() const {
    return order_;
  }                                              // in which they leave; empty until learnt
  std::int64_t early() const { return early_; }  // buckets of this step that left before finish()

 private:
  class ReadyHook;
  struct Bucket {
    std::int64_t entries = 0;  // parameters with floats in it
    std::int64_t waiting = 0;  // of them, not complete yet in this step
    std::unique_ptr<Work> work;
    bool started = false;
  };
  void cut_buckets();
  void ready(std::size_t entry);  // the gradient of one use of this parameter was added
  void start_ready();
  void start(std::size_t bucket);
  void complete(std::size_t bucket);
  void add_kept(const Range& range);
  void learn();
  void meet();
  Range part(std::size_t bucket, int rank) const;

  ParameterArena& arena_;
  Communicator& comm_;
  Communicator& channel_;  // gradients go through it
  SyncOptions options_;
  Trace* trace_;
  std::vector<Range> ranges_, owned_;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<std::size_t>> buckets_of_entry_;
  // what travels: the gradients themselves, or their copy in the wire's type or in host memory
  at::Tensor wire_;
  at::Tensor part_;             // zero1: my parts of the sums, bucket after bucket
  at::Tensor host_parameters_;  // zero1 over the host: (capacity)
  bool copied_ = false;
  // A binary counter of quarters: for each bit l of kept_count_, kept_[l] is the sum of 2^l of
  // them. (capacity) each
  std::vector<at::Tensor> kept_;
  std::int64_t kept_count_ = 0;
  std::vector<std::int64_t> order_;
  // Hook calls of each entry in an armed backward pass: more than one where a tensor is used by
  // several checkpointed layers.
  std::vector<std::int64_t> calls_, expected_, last_call_;
  std::int64_t sequence_ = 0, early_ = 0;
  std::size_t next_ = 0;  // of order_, not yet started
  bool armed_ = false, computed_ = false;
};

}  // namespace gpuhpc
