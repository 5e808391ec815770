#pragma once
// Time of the work that this thread hands out: the host's or, on a GPU, that of the current stream,
// which computes behind the host. There the host's own clock would call all computing the wait for
// whatever is read back first. (On a GPU never run.)
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <cstddef>
#include <vector>

namespace gpuhpc {

class WorkClock {
 public:
  using Mark = std::size_t;
  explicit WorkClock(c10::Device device) : device_(device) {}

  void restart() { marks_ = 0; }  // earlier marks are void
  Mark mark();                    // behind all work handed out so far
  // Seconds from one to the other. A GPU is waited for until it has come to the later one.
  double between(Mark from, Mark to) const;

 private:
  c10::Device device_;
  std::size_t marks_ = 0;
  std::vector<std::chrono::steady_clock::time_point> moments_;
  std::vector<c10::Event> events_;  // on a GPU in their place
};

}  // namespace gpuhpc
