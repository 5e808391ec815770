#pragma once
// Every error a user can meet carries one clear sentence (what, where, the cure) and the exit code
// of the program.
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace gpuhpc {

enum class ExitCode : int {
  ok = 0,
  usage = 2,           // unknown option or command
  bad_data = 65,       // an input file says something impossible
  internal = 70,       // our own bug
  io = 74,             // cannot read or write; disk full
  requeue = 75,        // checkpointed, start me again
  diverged = 76,       // NaN or divergence
  out_of_memory = 77,  // even the smallest batch does not fit
  configuration = 78,  // options or launch contradict each other
  peer = 79,           // another rank died or timed out
};

class Error : public std::runtime_error {
 public:
  // `on_all_ranks`: every rank throws this error, so all can leave in order; else the thrower must
  // end the others.
  Error(ExitCode code, const std::string& message, bool on_all_ranks = false)
      : std::runtime_error(message), code_(code), on_all_ranks_(on_all_ranks) {}
  ExitCode code() const { return code_; }
  bool on_all_ranks() const { return on_all_ranks_; }

 private:
  ExitCode code_;
  bool on_all_ranks_;
};

// throw input_error("{}:{}: no tab between id and text; write `id<TAB>text`", file, line);
template <typename... Args>
Error usage_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::usage, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Error input_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::bad_data, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Error io_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::io, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Error configuration_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::configuration, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Error internal_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::internal, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace gpuhpc
