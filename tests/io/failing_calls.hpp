#pragma once
// System calls that fail when a test says so: the program's own, and those of the libraries that it
// uses, come here first. For one source file of a test program.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <string_view>

namespace failing_calls {

// Calls on paths or descriptors under the watched folder count down; the one that reaches 0 fails,
// and where the fault stays all behind it.
struct Faults {
  std::atomic<bool> on{false}, stays{false};
  std::atomic<int> left{0}, error{0};
  std::string folder;
};
inline Faults faults;

inline bool fails(const char* path) {
  if (!faults.on || std::string_view(path).substr(0, faults.folder.size()) != faults.folder)
    return false;
  const int left = --faults.left;
  if (left > 0 || (left < 0 && !faults.stays)) return false;
  errno = faults.error;
  return true;
}

inline bool fails(int descriptor) {
  if (!faults.on) return false;
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t got = ::readlink(link, path, sizeof path - 1);
  if (got < 0) return false;
  path[got] = 0;
  return fails(path);
}

}  // namespace failing_calls

extern "C" {
ssize_t write(int descriptor, const void* bytes, size_t count) {
  return failing_calls::fails(descriptor) ? -1 : ::syscall(SYS_write, descriptor, bytes, count);
}
ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  return failing_calls::fails(descriptor)
             ? -1
             : ::syscall(SYS_pwrite64, descriptor, bytes, count, offset);
}
// The name by which a library that was built for large files calls it.
ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off_t offset) {
  return pwrite(descriptor, bytes, count, offset);
}
int fsync(int descriptor) {
  return failing_calls::fails(descriptor) ? -1 : static_cast<int>(::syscall(SYS_fsync, descriptor));
}
int rename(const char* from, const char* to) noexcept {
  return failing_calls::fails(from) ? -1 : static_cast<int>(::syscall(SYS_rename, from, to));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return failing_calls::fails(path) ? -1 : static_cast<int>(::syscall(SYS_mkdir, path, mode));
}
int ftruncate(int descriptor, off_t size) noexcept {
  return failing_calls::fails(descriptor)
             ? -1
             : static_cast<int>(::syscall(SYS_ftruncate, descriptor, size));
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, int) : 0;
  va_end(rest);
  return failing_calls::fails(path)
             ? -1
             : static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
}
