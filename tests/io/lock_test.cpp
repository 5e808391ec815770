#include "gpuhpc/io/atomic_file.hpp"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect_error.hpp"
#include "scratch_folder.hpp"

namespace gpuhpc {
namespace {
using ::testing::HasSubstr;

TEST(FolderLock, SecondHolderIsRefusedByName) {
  const ScratchFolder folder;
  {
    const FolderLock lock(folder / "run");
    const std::string message =
        error_of(ExitCode::configuration, [&] { const FolderLock second(folder / "run"); });
    EXPECT_THAT(message, HasSubstr("another gpuhpc is running in " + (folder / "run").string()));
    EXPECT_THAT(message, HasSubstr("(pid " + std::to_string(::getpid()) + " on host "));
  }
  const FolderLock again(folder / "run");
}

TEST(FolderLock, EndsWithAKilledProcess) {
  const ScratchFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder.path());
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(error_of(ExitCode::configuration, [&] { const FolderLock mine(folder.path()); }),
              HasSubstr("pid " + std::to_string(child)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  const FolderLock mine(folder.path());
}

TEST(FolderLock, FileInTheWay) {
  EXPECT_THAT(error_of(ExitCode::io, [] { const FolderLock lock("/dev/null/run"); }),
              HasSubstr("cannot create"));
}

}  // namespace
}  // namespace gpuhpc
