#include "gpuhpc/app/signals.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>

#include "gpuhpc/comm/run_collectively.hpp"

namespace gpuhpc {
namespace {

// A handler reaches nothing but globals, and may do no more than set this flag. Replicas read it
// from threads of their own.
std::atomic<bool> asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);
struct sigaction old_terminate, old_user, old_interrupt;
const char* interrupt_words = "";

void ask(int) { asked = true; }

void ask_aloud(int) {
  const int before = errno;  // of what it interrupts
  asked = true;
  [[maybe_unused]] const auto written =
      write(STDERR_FILENO, interrupt_words, std::strlen(interrupt_words));
  errno = before;
}

char half_written[4096] = "";
constexpr int ending[] = {SIGINT, SIGTERM, SIGHUP};
struct sigaction old_ending[std::size(ending)];

void remove_and_end(int signal) {
  ::unlink(half_written);
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // delivered when this handler returns
}

sigset_t only_user() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  return set;
}

}  // namespace

void hold_stop_signals() {
  const sigset_t set = only_user();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

StopSignals::StopSignals() {
  asked = false;
  struct sigaction action {};
  action.sa_handler = ask;
  action.sa_flags = SA_RESTART;  // reads and writes under way go on
  sigaction(SIGTERM, &action, &old_terminate);
  sigaction(SIGUSR1, &action, &old_user);
  // On a terminal the progress line and ^C stand before it.
  interrupt_words = isatty(STDERR_FILENO) != 0
                        ? "\nstopping after this step; press Ctrl-C again to leave at once\n"
                        : "stopping after this step; press Ctrl-C again to leave at once\n";
  sigaction(SIGINT, nullptr, &old_interrupt);
  action.sa_handler = ask_aloud;
  action.sa_flags = SA_RESTART | SA_RESETHAND;  // the second one is not caught
  if (old_interrupt.sa_handler != SIG_IGN) sigaction(SIGINT, &action, nullptr);
  const sigset_t set = only_user();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // one that came earlier is delivered here
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &old_interrupt, nullptr);
  if (asked) {
    signal(SIGTERM, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    return;
  }
  sigaction(SIGTERM, &old_terminate, nullptr);
  sigaction(SIGUSR1, &old_user, nullptr);
}

bool StopSignals::requested() { return asked; }

RemovedOnSignal::RemovedOnSignal(const std::filesystem::path& file) {
  const std::string& name = file.native();
  half_written[name.copy(half_written, sizeof half_written - 1)] = '\0';
  struct sigaction action {};
  action.sa_handler = remove_and_end;
  for (std::size_t i = 0; i < std::size(ending); ++i) {
    sigaction(ending[i], nullptr, &old_ending[i]);
    if (old_ending[i].sa_handler != SIG_IGN) sigaction(ending[i], &action, nullptr);
  }
}

RemovedOnSignal::~RemovedOnSignal() {
  for (std::size_t i = 0; i < std::size(ending); ++i) sigaction(ending[i], &old_ending[i], nullptr);
}

void end_in_words() {
  std::set_terminate([] {
    std::optional<Error> error;
    try {
      if (const std::exception_ptr thrown = std::current_exception())
        error = run_catching([&] { std::rethrow_exception(thrown); });
    } catch (...) {  // no exception of the standard library's
    }
    if (!error)
      error.emplace(ExitCode::internal, "the program came to an end that it has no words for");
    fmt::print(stderr, "gpuhpc: {}\n", error->what());
    std::fflush(stderr);
    std::_Exit(static_cast<int>(error->code()));
  });
}

}  // namespace gpuhpc
