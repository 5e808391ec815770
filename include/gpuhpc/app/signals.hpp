#pragma once
#include <filesystem>

// SIGTERM and SIGUSR1 (what batch systems send before the time is up) and SIGINT (Ctrl-C) ask a run
// to save and leave with exit 75.

namespace gpuhpc {

// Before any thread is started: a SIGUSR1 waits from here on until the first StopSignals is there.
// It may come while MPI starts.
void hold_stop_signals();

// What nobody can catch (a GPU that failed for good lets LibTorch's destructors throw) ends the
// process with its sentence and its exit code, as errors do, not by a signal.
void end_in_words();

// Catches them for its life, one object at a time; then what was there before is put back. When one
// came, SIGTERM and SIGUSR1 are ignored from then on: the process is leaving, and launchers send
// SIGTERM to the ranks that are not the first to be gone, which must not change their exit code.
// The first SIGINT says on standard error what it does; a second one ends the process at once, as
// it would without us (exit 130 in a shell). Where SIGINT is ignored from the start (a shell's
// background job), it stays so.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static bool requested();  // one of them came to this process since the last construction
};

// For its life, one object at a time, a signal that ends the process takes the file with it: what
// is half written. Nothing but the file's name is changed: the process ends by that signal.
class RemovedOnSignal {
 public:
  explicit RemovedOnSignal(const std::filesystem::path& file);  // empty: nothing to remove
  ~RemovedOnSignal();
  RemovedOnSignal(const RemovedOnSignal&) = delete;
  RemovedOnSignal& operator=(const RemovedOnSignal&) = delete;
};

}  // namespace gpuhpc
