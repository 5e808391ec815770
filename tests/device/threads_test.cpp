// Threads that a limit of the system forbids.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "gpuhpc/device/device.hpp"

namespace gpuhpc {
namespace {

// In a process of its own, since the limit stays; as nobody, since root has none. LibTorch's pool
// would wait for ever for the threads that are missing.
TEST(Apply, ThreadsThatCannotBeStartedAreAnError) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const rlimit one{1, 1};
    if ((geteuid() == 0 && setuid(65534) != 0) || setrlimit(RLIMIT_NPROC, &one) != 0) _exit(3);
    DeviceChoice choice;
    choice.threads = 4;
    try {
      apply({}, choice);
    } catch (const std::system_error& error) {
      _exit(error.code().value() == EAGAIN ? 0 : 2);
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace gpuhpc
