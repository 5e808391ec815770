#include "gpuhpc/io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace gpuhpc {

namespace fs = std::filesystem;
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

void write_fully(int descriptor, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error("write", path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

int open_temporary(const fs::path& temporary, const fs::path& path) {
  for (;;) {
    const int descriptor = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) throw system_error("create", temporary, errno);
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(descriptor);
      throw io_error(
          "cannot write {}: another process is writing it; wait for that one or choose another "
          "path",
          path.string());
    }
    // Between open and flock the other writer may have renamed this inode away: then start over.
    struct stat mine {
    }, there{};
    if (::fstat(descriptor, &mine) == 0 && ::stat(temporary.c_str(), &there) == 0 &&
        mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) {
      if (::ftruncate(descriptor, 0) != 0) {
        const int error_number = errno;
        ::unlink(temporary.c_str());
        ::close(descriptor);
        throw system_error("write", temporary, error_number);
      }
      return descriptor;
    }
    ::close(descriptor);
  }
}

AtomicFile::AtomicFile(const fs::path& path) : path_(path) {
  std::error_code ignored;
  const auto status = fs::status(path_, ignored);
  if (fs::is_directory(status)) throw system_error("write", path_, EISDIR);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) throw system_error("open", path_, errno);
    return;
  }
  // Followed, also to a file that is not there yet.
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(path_, ignored)); ++links)
    path_ = path_.parent_path() / fs::read_symlink(path_);
  temporary_ = path_;
  temporary_ += ".tmp";
  descriptor_ = open_temporary(temporary_, path_);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  ::close(descriptor_);
}

void AtomicFile::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > buffer_bytes) flush();
  if (bytes.size() >= buffer_bytes) {
    write_fully(descriptor_, bytes, path_);
  } else {
    buffer_.append(bytes);
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void AtomicFile::flush() {
  write_fully(descriptor_, buffer_, path_);
  buffer_.clear();
}

void AtomicFile::commit() {
  if (descriptor_ < 0) throw internal_error("{} was committed twice", path_.string());
  flush();
  if (!temporary_.empty()) {
    sync_descriptor(descriptor_, path_);
    rename_synced(temporary_, path_);
  }
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0) throw system_error("write", path_, errno);
}

void sync_descriptor(int descriptor, const fs::path& path) {
  if (::fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS)
    throw system_error("write", path, errno);
}

void rename_synced(const fs::path& temporary, const fs::path& path) {
  if (::rename(temporary.c_str(), path.c_str()) != 0) throw system_error("write", path, errno);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw system_error("open", folder, errno);
  const int failed = ::fsync(descriptor) != 0 ? errno : 0;
  ::close(descriptor);
  if (failed != 0 && failed != EINVAL && failed != EROFS)
    throw system_error("write", folder, failed);
}

void write_fully_at(int descriptor, std::span<const std::byte> bytes, std::int64_t offset,
                    const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

void write_text_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string read_text_file(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw system_error("open", path, errno);
  std::string text;
  for (;;) {
    const std::size_t used = text.size();
    text.resize(used + (used < buffer_bytes ? std::size_t{1} << 16 : used));
    const ssize_t got = ::read(descriptor, text.data() + used, text.size() - used);
    const int error_number = errno;
    text.resize(used + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got > 0 || (got < 0 && error_number == EINTR)) continue;
    ::close(descriptor);
    if (got < 0) throw system_error("read", path, error_number);
    return text;
  }
}

void copy_file(const fs::path& from, const fs::path& to) {
  write_text_file(to, read_text_file(from));
}

void append_line(const fs::path& path, std::string_view line) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) throw system_error("open", path, errno);
  try {
    write_fully(descriptor, std::string(line) + "\n", path);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  if (::close(descriptor) != 0) throw system_error("write", path, errno);
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw system_error("create", folder, error.value());
  if (!fs::is_directory(folder, error)) throw system_error("create", folder, ENOTDIR);
}

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw system_error("remove", path, errno);
}

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
