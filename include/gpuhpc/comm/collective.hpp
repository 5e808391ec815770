#pragma once
// One collective as a value: what messages about it say and what ranks compare before they trust
// each other.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

enum class CollectiveKind : std::int32_t {
  none,
  barrier,
  all_reduce,
  broadcast,
  all_gather,
  all_gather_ragged,
  reduce_scatter
};

// Sent between ranks as it is: plain numbers only.
struct CollectiveCall {
  std::uint64_t sequence = 0;  // counted by each communicator, from 1
  CollectiveKind kind = CollectiveKind::none;
  DataType type = DataType::uint8;
  Reduce reduce = Reduce::sum;
  std::int32_t root = 0;
  std::int64_t count = 0;  // elements per rank; of all ranks for all_gather_ragged
  bool operator==(const CollectiveCall&) const = default;
};

// "all_reduce number 12 (1000 float32, sum)"
std::string describe(const CollectiveCall& call);

// What is wrong when the ranks are about to do `calls` (one per rank), in one sentence with both
// calls; nothing when they agree.
std::optional<std::string> find_mismatch(std::span<const CollectiveCall> calls,
                                         std::span<const std::string> hosts);

// The sentence of a time-out: `mine` was waited for; `entered` holds the last collective of each
// rank, nothing for one that does not answer. Empty when every rank has entered `mine`.
std::string name_missing(const CollectiveCall& mine, double seconds, int rank,
                         std::span<const std::optional<CollectiveCall>> entered,
                         std::span<const std::string> hosts);

// What a communicator offers to one that is built on it (NCCL over MPI or threads): finding out
// whom a collective waits for.

// Any thread may call; nothing here is a collective.
class PeerBoard {
 public:
  virtual ~PeerBoard() = default;
  // The last collective that this rank has entered on the other communicator.
  virtual void note(const CollectiveCall& entered) = 0;
  // What each rank noted last; nothing for a rank that does not answer (dead, frozen or cut off).
  // Takes seconds at most.
  virtual std::vector<std::optional<CollectiveCall>> ask_noted() = 0;
  virtual const std::vector<std::string>& hosts() const = 0;  // one per rank
};

}  // namespace gpuhpc
