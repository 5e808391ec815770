#include "gpuhpc/app/signals.hpp"

#include <atomic>
#include <csignal>

namespace gpuhpc {
namespace {

// A handler reaches nothing but globals, and may do no more than set this flag. Replicas read it from threads of their own.
std::atomic<bool> asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);
struct sigaction old_terminate, old_user;

void ask(int) { asked = true; }

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
  const sigset_t set = only_user();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // one that came earlier is delivered here
}

StopSignals::~StopSignals() {
  if (asked != 0) {
    signal(SIGTERM, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    return;
  }
  sigaction(SIGTERM, &old_terminate, nullptr);
  sigaction(SIGUSR1, &old_user, nullptr);
}

bool StopSignals::requested() { return asked; }

}  // namespace gpuhpc
