#pragma once
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

enum class Strategy {
  ddp,    // every rank holds and updates all weights
  zero1,  // each rank updates its part of the weights; optimizer state is split over the ranks
};

// Section [parallel]: how the ranks work together.
struct ParallelOptions {
  std::string strategy = "ddp";
  std::string reduce_type = "fp32";
  std::int64_t bucket_bytes = 4 << 20;
  bool reproducible = true;
  bool overlap = true;
  std::int64_t timeout = 600;  // seconds; every collective ends within it or the run ends with exit 79
  bool check_collectives = false;

  Strategy strategy_kind() const;
  bool reduce_in_bfloat16() const { return reduce_type == "bf16"; }
};

void declare(config::Section& section, ParallelOptions& options);

}  // namespace gpuhpc
