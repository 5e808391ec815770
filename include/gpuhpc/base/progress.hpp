#pragma once
// Progress of one long job: a line that redraws itself on a terminal (rate, time left), a plain log
// line now and then elsewhere.
#include <chrono>
#include <cstdint>
#include <string>

#include "gpuhpc/base/log.hpp"

namespace gpuhpc {

class Progress {
 public:
  // `total` in `unit` ("documents"); 0 when unknown. Only a Progress with `visible` (rank 0)
  // speaks.
  Progress(Log log, std::string what, std::int64_t total, std::string unit, bool visible);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // What was done before this process: it counts, but not for the rate.
  void resume(std::int64_t done);
  // `note` is shown behind the counts, for example "loss 3.21".
  void advance(std::int64_t amount, const std::string& note = "");
  void finish();

 private:
  double rate(double seconds) const;  // units a second
  std::string line(double seconds, const std::string& note) const;
  Log log_;
  std::string what_, unit_;
  std::int64_t total_, done_ = 0, before_ = 0;
  bool visible_, terminal_, finished_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

// "1:05", "2:03:04"
std::string format_duration(double seconds);

}  // namespace gpuhpc
