#pragma once
// Ends a launch whose ranks do not find each other: until the communicator stands MPI itself would
// wait for ever.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace gpuhpc {

// Ends this process with a sentence and exit code 79 unless it is destroyed within `limit`.
class StartDeadline {
 public:
  explicit StartDeadline(std::chrono::seconds limit);
  ~StartDeadline();
  StartDeadline(const StartDeadline&) = delete;
  StartDeadline& operator=(const StartDeadline&) = delete;
  // GPUHPC_START_SECONDS, or 300: options are read later.
  static std::chrono::seconds limit();

 private:
  std::mutex mutex_;
  std::condition_variable started_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace gpuhpc
