#include "gpuhpc/comm/options.hpp"

#include <algorithm>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

Strategy ParallelOptions::strategy_kind() const {
  return strategy == "zero1" ? Strategy::zero1 : strategy == "dp" ? Strategy::dp : Strategy::ddp;
}

int ParallelOptions::replica_count(int ranks, int gpus) const {
  if (ranks > 1 && strategy_kind() == Strategy::dp)
    throw usage_error(
        "--parallel.strategy dp trains in one process, but {} ranks were started; start one "
        "without mpirun, or use --parallel.strategy ddp",
        ranks);
  if (ranks > 1 && replicas > 1)
    throw usage_error(
        "--parallel.replicas {} is for one process, but {} ranks were started; the launcher "
        "decides how many train",
        replicas, ranks);
  if (ranks > 1) return 1;
  if (gpus > 0 && replicas > gpus)
    throw configuration_error(
        "--parallel.replicas {} on {} visible GPU{}; give at most one replica per GPU", replicas,
        gpus, gpus == 1 ? "" : "s");
  return static_cast<int>(replicas > 0 ? replicas : std::max(1, gpus));
}

void declare(config::Section& section, ParallelOptions& options) {
  section
      .option(
          "strategy", options.strategy,
          "ddp: every rank updates all weights; zero1: each rank updates its part and holds its "
          "part of the optimizer's state; dp: ddp between the replicas of one process, refused "
          "beside a launcher's ranks")
      .one_of({"ddp", "zero1", "dp"})
      .execution()
      .common();
  section
      .option("replicas", options.replicas,
              "ranks of a process that no launcher started, a thread and a copy of the model each, "
              "sharing --device.threads; all: one per visible GPU (--device.ids), a single one on "
              "processors")
      .range(0, 1024)
      .word("all", 0)
      .execution();
  section
      .option(
          "reduce-type", options.reduce_type,
          "type in which gradients travel between ranks; bf16 halves the bytes; MPI's sums of it "
          "are fp32, NCCL rounds to bf16 at every hop")
      .one_of({"fp32", "bf16"});
  section
      .option("bucket-bytes", options.bucket_bytes,
              "gradients are reduced in buckets of about this size; auto: 4 MiB on processors, 32 "
              "MiB on GPUs")
      .range(1024, 1e12)
      .word("auto", 0)
      .unit("bytes")
      .execution();
  section
      .option("reproducible", options.reproducible,
              "gradients are added in one fixed tree over quarters of the batch and ranks of "
              "processors: 1, 2 and 4 ranks give the same weights bit for bit when a batch has "
              "four micro-batches or more")
      .execution();
  section
      .option("overlap", options.overlap,
              "reduce buckets while the backward pass still computes others")
      .execution();
  section
      .option("timeout", options.timeout,
              "longest wait for the other ranks in one collective; after it the run names the "
              "missing rank and ends with exit code 79")
      .range(1, 1e9)
      .unit("seconds")
      .execution();
  section
      .option("check-collectives", options.check_collectives,
              "before each collective the ranks compare what they are about to do: finds ranks "
              "that went different ways, costs a small message")
      .execution();
}

}  // namespace gpuhpc
