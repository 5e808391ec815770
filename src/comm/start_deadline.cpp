#include "start_deadline.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

StartDeadline::StartDeadline(std::chrono::seconds limit) {
  thread_ = std::thread([this, limit] {
    std::unique_lock lock(mutex_);
    if (started_.wait_for(lock, limit, [this] { return done_; })) return;
    fmt::print(stderr,
               "gpuhpc: MPI did not start within {} s: a rank of this launch has not come up, or "
               "the hosts do not reach each other; look for it in the "
               "launcher's output, and name the right network with OMPI_MCA_btl_tcp_if_include "
               "where hosts have several\n",
               limit.count());
    std::fflush(stderr);
    std::_Exit(static_cast<int>(ExitCode::peer));
  });
}

StartDeadline::~StartDeadline() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  started_.notify_one();
  thread_.join();
}

std::chrono::seconds StartDeadline::limit() {
  const char* given = std::getenv("GPUHPC_START_SECONDS");
  const int seconds = given != nullptr ? std::atoi(given) : 0;
  return std::chrono::seconds(seconds > 0 ? seconds : 300);
}

}  // namespace gpuhpc
