#include "gpuhpc/comm/options.hpp"

namespace gpuhpc {

Strategy ParallelOptions::strategy_kind() const {
  return strategy == "zero1" ? Strategy::zero1 : Strategy::ddp;
}

void declare(config::Section& section, ParallelOptions& options) {
  section
      .option("strategy", options.strategy,
              "ddp: every rank updates all weights; zero1: each rank updates its part and holds its part of the optimizer's state")
      .one_of({"ddp", "zero1"});
  section.option("reduce-type", options.reduce_type, "type in which gradients travel between ranks; bf16 halves the bytes and is added up in fp32")
      .one_of({"fp32", "bf16"});
  section.option("bucket-bytes", options.bucket_bytes, "gradients are reduced in buckets of about this size").range(1024, 1e12).unit("bytes");
  section.option("reproducible", options.reproducible,
                 "gradients are added in one fixed tree over quarters of the batch and ranks of processors: 1, 2 and 4 ranks give the same weights "
                 "bit for bit when the micro-batches of a batch divide by 4");
  section.option("overlap", options.overlap, "reduce buckets while the backward pass still computes others");
  section.option("timeout", options.timeout, "longest wait for the other ranks in one collective; past it the run ends with exit 79 and names the missing rank")
      .range(1, 1e9)
      .unit("seconds");
  section.option("check-collectives", options.check_collectives,
                 "before each collective the ranks compare what they are about to do: finds ranks that went different ways, costs a small message");
}

}  // namespace gpuhpc
