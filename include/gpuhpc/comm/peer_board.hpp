#pragma once
// What a communicator offers to one that is built on it (NCCL over MPI or threads): finding out
// whom a collective waits for.
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/comm/collective.hpp"

namespace gpuhpc {

// Any thread may call; nothing here is a collective.
class PeerBoard {
 public:
  virtual ~PeerBoard() = default;
  // The last collective that this rank has entered on the other communicator.
  virtual void note(const CollectiveCall& entered) = 0;
  // What each rank noted last; nothing for a rank that does not answer (dead, frozen or cut off).
  // Takes seconds at most.
  virtual std::vector<std::optional<CollectiveCall>> ask_noted() = 0;
  virtual const std::vector<std::string>& hosts() const = 0;  // one a rank
};

}  // namespace gpuhpc
