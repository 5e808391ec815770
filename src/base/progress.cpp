#include "gpuhpc/base/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gpuhpc {
namespace {
using Clock = std::chrono::steady_clock;
double seconds_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

// A line that fills its terminal's width would be wrapped, and only the last part of it drawn over.
std::size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1u : 79u;
}
std::string format_rate(double rate) { return fmt::format("{:.{}f}", rate, rate < 10 ? 2 : 0); }

}  // namespace

std::string format_duration(double seconds) {
  const long long whole = std::llround(std::max(0.0, seconds));
  if (whole >= 3600)
    return fmt::format("{}:{:02d}:{:02d}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02d}", whole / 60, whole % 60);
}

Progress::Progress(Log log, std::string what, std::int64_t total, std::string unit, bool visible)
    : log_(std::move(log)),
      what_(std::move(what)),
      unit_(std::move(unit)),
      total_(total),
      visible_(visible),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() { finish(); }

double Progress::rate(double seconds) const {
  return static_cast<double>(done_ - before_) / std::max(seconds, 1e-9);
}

std::string Progress::line(double seconds, const std::string& note) const {
  std::string text = total_ > 0 ? fmt::format("{}: {}/{} {}", what_, done_, total_, unit_)
                                : fmt::format("{}: {} {}", what_, done_, unit_);
  text += fmt::format(", {}/s", format_rate(rate(seconds)));
  if (total_ > done_ && done_ > before_)
    text += fmt::format(", {} left",
                        format_duration(static_cast<double>(total_ - done_) / rate(seconds)));
  if (!note.empty()) text += ", " + note;
  return text;
}

void Progress::resume(std::int64_t done) { done_ = before_ = done; }

void Progress::advance(std::int64_t amount, const std::string& note) {
  done_ += amount;
  const auto now = Clock::now();
  if (!visible_ || seconds_between(last_, now) < (terminal_ ? 0.2 : 15.0)) return;
  last_ = now;
  const std::string text = line(seconds_between(start_, now), note);
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{}", text.substr(0, terminal_columns()));
    std::fflush(stderr);
  } else {
    log_->info("{}", text);
  }
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (!visible_) return;
  if (terminal_) fmt::print(stderr, "\r\033[K");
  const double seconds = seconds_between(start_, Clock::now());
  log_->info("{}: {} {} in {} ({}/s)", what_, done_ - before_, unit_, format_duration(seconds),
             format_rate(rate(seconds)));
}

}  // namespace gpuhpc
