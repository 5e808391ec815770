#include "gpuhpc/app/signals.hpp"

#include <csignal>

namespace gpuhpc {
namespace {

// A handler reaches nothing but globals, and may do no more than set this flag.
volatile std::sig_atomic_t asked = 0;
struct sigaction old_terminate, old_user;

void ask(int) { asked = 1; }

}  // namespace

StopSignals::StopSignals() {
  asked = 0;
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

bool StopSignals::requested() { return asked != 0; }

}  // namespace gpuhpc
