#pragma once
// --profile.steps: the phases of chosen steps, as a Chrome trace of each rank (ui.perfetto.dev,
// chrome://tracing) and as NVTX ranges. On a GPU the host's times are those of starting work; it
// waits for the results in "loss", "sum", "agreement" or "update".
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

// Section [profile].
struct ProfileOptions {
  static constexpr const char* section = "profile";
  std::string steps;  // "10-12", "5"; empty: none

  // The steps, counted from 1: [first, last), empty for none. usage_error for anything but one of
  // these forms.
  Range range() const;
};
void declare(config::Section& section, ProfileOptions& options);

class Trace {
 public:
  Trace(Range steps, std::filesystem::path file, int rank, std::string host);
  void step_begins(std::int64_t step) {
    step_ = step >= steps_.first && step < steps_.last ? step : 0;
  }
  bool recording() const { return step_ > 0; }
  // After `step`: all that was asked for is here, or no more will come (`last`). The same on all
  // ranks.
  bool complete(std::int64_t step, bool last) const {
    return !events_.empty() && (last || step + 1 >= steps_.last);
  }
  void write();  // the file, atomically; starts again from nothing

 private:
  friend class Span;
  struct Event {
    const char* name;
    std::int64_t number, step, begin, end;  // number: below 0 none; microseconds since 1970
  };
  std::size_t begin(const char* name, std::int64_t number);
  void end(std::size_t event);
  std::int64_t now() const;

  Range steps_;
  std::filesystem::path file_;
  int rank_;
  std::string host_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  // the same moment: ranks of a host lie side by side
  std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  std::int64_t step_ = 0;
  std::vector<Event> events_;
};

// One phase, for as long as the object lives; phases of a phase lie within it. Nothing happens
// without a trace that records. The hooks of a backward pass may run on another thread: the one
// that called it waits meanwhile, so only one thread is here at a time.
class Span {
 public:
  // `name` is a literal; `number` stands behind it.
  explicit Span(Trace* trace, const char* name, std::int64_t number = -1)
      : trace_(trace != nullptr && trace->recording() ? trace : nullptr) {
    if (trace_ != nullptr) event_ = trace_->begin(name, number);
  }
  ~Span() {
    if (trace_ != nullptr) trace_->end(event_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Trace* trace_;
  std::size_t event_ = 0;
};

template <typename Work>
auto traced(Trace* trace, const char* name, const Work& work) {
  const Span span(trace, name);
  return work();
}

}  // namespace gpuhpc
