// A library for LD_PRELOAD: calls of the program that write below a folder are counted, and fail
// from one on. The environment says which (tests/pipeline/failing_writes.sh):
//   FAULT_FOLDER  paths that begin so are watched: end it with a slash
//   FAULT_AT      the first call that fails, from 1; 0: none
//   FAULT_ERRNO   its error
//   FAULT_STAYS   1: all calls behind it fail, too
//   FAULT_COUNT   a file for the number of calls
#include "../io/failing_calls.hpp"

#include <climits>
#include <cstdlib>

namespace {

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Session {
  Session() {
    using failing_calls::faults;
    const int at = std::atoi(setting("FAULT_AT"));
    faults.folder = setting("FAULT_FOLDER");
    faults.left = first = at > 0 ? at : INT_MAX;
    faults.error = std::atoi(setting("FAULT_ERRNO"));
    faults.stays = setting("FAULT_STAYS")[0] == '1';
    faults.on = !faults.folder.empty();
  }
  ~Session() {
    using failing_calls::faults;
    faults.on = false;
    const int file = ::open(setting("FAULT_COUNT"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0) return;
    char text[32];
    const int size = std::snprintf(text, sizeof text, "%d\n", first - faults.left.load());
    if (::write(file, text, static_cast<size_t>(size)) != size) std::abort();
    ::close(file);
  }
  int first = 0;
};
const Session session;

}  // namespace
