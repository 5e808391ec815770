#include "gpuhpc/device/work_clock.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace gpuhpc {

WorkClock::Mark WorkClock::mark() {
  const Mark here = marks_++;
  if (device_.is_cpu()) {
    moments_.resize(marks_);
    moments_[here] = std::chrono::steady_clock::now();
    return here;
  }
  if (here == events_.size()) events_.emplace_back(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  try {
    events_[here].record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  } catch (const c10::Error&) {  // the device failed: what is read next says so, on all ranks
  }
  return here;
}

double WorkClock::between(Mark from, Mark to) const {
  if (device_.is_cpu())
    return std::chrono::duration<double>(moments_.at(to) - moments_.at(from)).count();
  events_.at(to).synchronize();
  return events_.at(from).elapsedTime(events_.at(to)) / 1000;
}

}  // namespace gpuhpc
