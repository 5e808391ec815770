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

}  // namespace

StopSignals::StopSignals() {
  asked = false;
  struct sigaction action {};
  action.sa_handler = ask;
  action.sa_flags = SA_RESTART;  // reads and writes under way go on
  sigaction(SIGTERM, &action, &old_terminate);
  sigaction(SIGUSR1, &action, &old_user);
}

StopSignals::~StopSignals() {
  sigaction(SIGTERM, &old_terminate, nullptr);
  sigaction(SIGUSR1, &old_user, nullptr);
}

bool StopSignals::requested() { return asked; }

}  // namespace gpuhpc
