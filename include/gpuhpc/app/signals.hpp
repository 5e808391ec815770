#pragma once
// SIGTERM and SIGUSR1 (what batch systems send before the time is up) ask a run to save and leave with exit 75.

namespace gpuhpc {

// Before any thread is started: a SIGUSR1 waits from here on until the first StopSignals is there. It may come while MPI starts.
void hold_stop_signals();

// Catches both for its life, one object at a time; then what was there before is put back. When one came, both are ignored from then on:
// the process is leaving, and launchers send SIGTERM to the ranks that are not the first to be gone, which must not change their exit code.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static bool requested();  // one of them came to this process since the last construction
};

}  // namespace gpuhpc
