#pragma once
// What the links between the ranks give, and whether what they give is right.
#include <cstdint>
#include <string>

#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

struct AllReduceRate {
  std::int64_t bytes = 0;  // per rank
  double seconds = 0;      // median of the calls, of the slowest rank

  double rate() const { return static_cast<double>(bytes) / seconds; }  // bytes per second
  // What each rank has to send and to receive per second, whatever the algorithm: 2 (n - 1) / n of
  // the bytes, as nccl-tests counts it.
  double link_rate(int ranks) const { return rate() * 2 * (ranks - 1) / ranks; }
};
// float32 sums of `bytes` per rank, for about `budget` seconds, three calls at least. Collective.
// Every element of every answer is compared; a rank that finds a wrong one throws peer, alone.
AllReduceRate measure_all_reduce(Communicator& comm, std::int64_t bytes, double budget);

// The network cards of this host that are up, with their speeds: "eth0 10 Gbit/s, mlx5_0 100 Gb/sec
// (4X EDR)".
std::string describe_network();

}  // namespace gpuhpc
