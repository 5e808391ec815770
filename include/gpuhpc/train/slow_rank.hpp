#pragma once
// Names the rank that all others wait for. Under data parallel a step takes as long as its slowest
// rank, and the time that the others lose looks like communication; how long each rank took to the
// sum, for each of its tokens, tells who it was.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {

// The slowest of several, when it takes at least a fifth longer than the median of the others.
struct SlowRank {
  std::size_t rank = 0;
  double times = 1;  // as long as the others
};
std::optional<SlowRank> slow_rank(std::span<const double> seconds_a_token);

class SlowRankWatch {
 public:
  SlowRankWatch(Communicator& comm, Log log, std::int64_t window = 20);  // collective
  // After each step, on every rank. Compares the ranks at the end of each window of steps; rank 0
  // warns when another one is slow.
  void after_step(const StepReport& report);

 private:
  Communicator& comm_;
  Log log_;
  std::int64_t window_, steps_ = 0;
  double seconds_ = 0, tokens_ = 0;
  std::vector<std::string> hosts_;
  std::optional<std::size_t> named_;
};

}  // namespace gpuhpc
