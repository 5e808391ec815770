#pragma once
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

enum class Strategy {
  ddp,    // every rank holds and updates all weights
  zero1,  // each rank updates its part of the weights; optimizer state is split over the ranks
  dp,     // ddp between replicas of the model in one process, a thread each, and nowhere else
};

// Section [parallel]: how the ranks work together.
struct ParallelOptions {
  static constexpr const char* section = "parallel";
  std::string strategy = "ddp";
  std::int64_t replicas = 0;  // of one process; 0 ("all"): a GPU each, one on processors
  std::string reduce_type = "fp32";
  std::int64_t bucket_bytes = 0;  // 0 ("auto"): bucket() says
  bool reproducible = true;
  bool overlap = true;
  // seconds; every collective ends within it or the run ends with exit 79
  std::int64_t timeout = 600;
  bool check_collectives = false;

  Strategy strategy_kind() const;
  // Replicas that work in this process, one of `ranks`; `gpus`: those that it may use, 0 when it
  // computes on processors. Throws usage_error for dp and for replicas beside other ranks,
  // configuration_error for more replicas than GPUs.
  int replica_count(int ranks, int gpus) const;
  // Bytes of a bucket. Processors sum 4 MiB while they are still in a cache; a kernel of NCCL needs
  // more to fill the links between GPUs.
  std::int64_t bucket(bool gpu) const {
    return bucket_bytes > 0 ? bucket_bytes : (gpu ? 32 : 4) << 20;
  }
  bool reduce_in_bfloat16() const { return reduce_type == "bf16"; }
};

void declare(config::Section& section, ParallelOptions& options);

}  // namespace gpuhpc
