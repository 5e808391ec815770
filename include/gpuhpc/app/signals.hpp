#pragma once
// SIGTERM and SIGUSR1 (what batch systems send before the time is up) ask a run to save and leave with exit 75.

namespace gpuhpc {

// Catches both for its life, one object at a time; then what was there before is put back.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static bool requested();  // one of them came to this process since the last construction
};

}  // namespace gpuhpc
