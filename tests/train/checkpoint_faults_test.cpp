// R4: every system call that a save makes fails once, for every reason a disk has. The program's
// own calls come here first.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "checkpoint_fixture.hpp"
#include "gpuhpc/base/error.hpp"

namespace {

// Calls on paths or descriptors under the watched folder count down; the one that reaches 0 fails.
struct Faults {
  std::atomic<bool> on{false};
  std::atomic<int> left{0}, error{0};
  std::string folder;
} faults;

bool fails(const char* path) {
  if (!faults.on || std::string_view(path).substr(0, faults.folder.size()) != faults.folder)
    return false;
  if (--faults.left != 0) return false;
  errno = faults.error;
  return true;
}

bool fails(int descriptor) {
  if (!faults.on) return false;
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t got = ::readlink(link, path, sizeof path - 1);
  if (got < 0) return false;
  path[got] = 0;
  return fails(path);
}

}  // namespace

extern "C" {
ssize_t write(int descriptor, const void* bytes, size_t count) {
  return fails(descriptor) ? -1 : ::syscall(SYS_write, descriptor, bytes, count);
}
int fsync(int descriptor) {
  return fails(descriptor) ? -1 : static_cast<int>(::syscall(SYS_fsync, descriptor));
}
int rename(const char* from, const char* to) noexcept {
  return fails(from) ? -1 : static_cast<int>(::syscall(SYS_rename, from, to));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return fails(path) ? -1 : static_cast<int>(::syscall(SYS_mkdir, path, mode));
}
int ftruncate(int descriptor, off_t size) noexcept {
  return fails(descriptor) ? -1 : static_cast<int>(::syscall(SYS_ftruncate, descriptor, size));
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, int) : 0;
  va_end(rest);
  return fails(path) ? -1 : static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
}

namespace gpuhpc {
namespace {
using testing::HasSubstr;

class CheckpointFaults : public CheckpointFolder {};

TEST_F(CheckpointFaults, WhateverFailsTheOneBeforeLoads) {
  const auto comm = make_single_communicator();
  const auto save = [&](CheckpointStore& store, std::int64_t step) {
    Sample sample(step);
    store.start(sample.buffers(), sample.state());
    store.finish();
  };
  const auto load = [&] {
    Sample sample(0);
    const auto state = CheckpointStore(settings(), *comm, log_).load(sample.buffers());
    return state && sample.equals(Sample(state->step)) ? state->step : -1;
  };
  faults.folder = folder_.string();
  int failures = 0;
  for (const int error : {ENOSPC, EIO, EDQUOT}) {
    for (int call = 1;; ++call) {
      std::filesystem::remove_all(folder_);
      CheckpointStore store(settings(), *comm, log_);
      save(store, 1);
      faults.left = call, faults.error = error;
      faults.on = true;
      bool failed = false;
      try {
        save(store, 2);
      } catch (const Error& e) {
        failed = true;
        EXPECT_EQ(e.code(), ExitCode::io) << e.what();
        EXPECT_TRUE(e.on_all_ranks());
        EXPECT_THAT(e.what(), HasSubstr("the checkpoint of step 2 failed: cannot"));
        EXPECT_THAT(e.what(), HasSubstr(folder_.string()));
      }
      faults.on = false;
      if (faults.left > 0) break;  // there is no such call any more
      EXPECT_TRUE(failed) << "call " << call;
      ++failures;
      // A manifest in its place is a whole checkpoint, even when the folder's own sync failed.
      const bool renamed = std::filesystem::exists(folder_ / "step-00000002/manifest.json");
      EXPECT_EQ(load(), renamed ? 2 : 1) << "call " << call;
      save(store, 3);
      EXPECT_EQ(load(), 3) << "after a failure the next save works";
    }
  }
  EXPECT_GT(failures, 3 * 10);
  std::printf("%d failing system calls of a save: the checkpoint before always loaded\n", failures);
}

}  // namespace
}  // namespace gpuhpc
