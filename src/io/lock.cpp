#include "gpuhpc/io/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "an unknown host";
}

// "pid N on host H" as the holder wrote it.
std::string holder(int descriptor) {
  char text[512] = {};
  const ssize_t got = ::pread(descriptor, text, sizeof text - 1, 0);
  std::string line(text, static_cast<std::size_t>(got > 0 ? got : 0));
  line = line.substr(0, line.find('\n'));
  return line.empty() ? "which has not written its name yet" : line;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  create_folder(folder);
  const auto path = folder / ".lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw system_error("create", path, errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error_number = errno;
    const std::string who = holder(descriptor_);
    ::close(descriptor_);
    if (error_number != EWOULDBLOCK) throw system_error("lock", path, error_number);
    throw configuration_error(
        "another gpuhpc is running in {} ({}); wait until it ends or give another --run.dir",
        folder.string(), who);
  }
  const std::string mine = fmt::format("pid {} on host {}\n", ::getpid(), host_name());
  const bool written = ::ftruncate(descriptor_, 0) == 0 &&
                       ::pwrite(descriptor_, mine.data(), mine.size(), 0) == std::ssize(mine);
  if (!written) {
    const int error_number = errno;
    ::close(descriptor_);
    throw system_error("write", path, error_number);
  }
}

// The file stays: unlinking it would let two later holders lock two different files.
FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace gpuhpc
