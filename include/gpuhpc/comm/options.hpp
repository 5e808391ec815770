#pragma once
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

enum class Strategy {
  ddp,    // every rank holds and updates all weights
  zero1,  // each rank updates its part of the weights; optimizer state is split over the ranks
  dp,     // as ddp, between replicas of the model in one process, a thread each
};

// Section [parallel]: how the ranks work together.
struct ParallelOptions {
  static constexpr const char* section = "parallel";
  std::string strategy = "ddp";
  std::int64_t replicas = 0;  // dp; 0 ("all"): a GPU each, one on processors
  std::string reduce_type = "fp32";
  std::int64_t bucket_bytes = 4 << 20;
  bool reproducible = true;
  bool overlap = true;
  // seconds; every collective ends within it or the run ends with exit 79
  std::int64_t timeout = 600;
  bool check_collectives = false;

  Strategy strategy_kind() const;
  // Replicas that train in this process, one of `ranks`; `gpus`: those that it sees, 0 when it
  // computes on processors. Throws usage_error for dp beside other ranks and for replicas without
  // dp, configuration_error for more replicas than GPUs.
  int replica_count(int ranks, int gpus) const;
  bool reduce_in_bfloat16() const { return reduce_type == "bf16"; }
};

void declare(config::Section& section, ParallelOptions& options);

}  // namespace gpuhpc
