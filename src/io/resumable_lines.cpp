#include "gpuhpc/io/resumable_lines.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/mapped_file.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

ResumableLines::ResumableLines(const fs::path& path, const std::string& task, std::int64_t block)
    : path_(path), partial_(path.string() + "." + task.substr(0, 12) + ".partial") {
  descriptor_ = ::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw system_error("open", partial_, errno);
  // A file system without locks has nobody to ask.
  const bool ours = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  if (ours) {
    const MappedFile there(partial_);
    const char* const text = reinterpret_cast<const char*>(there.bytes().data());
    std::int64_t lines = 0;
    for (std::int64_t i = 0; i < there.size(); ++i)
      if (text[i] == '\n' && ++lines % block == 0) done_ = lines, bytes_ = i + 1;
  }
  const int failed = ours && ::ftruncate(descriptor_, bytes_) == 0 ? 0 : errno;
  if (failed == 0) return;
  ::close(descriptor_);
  if (ours) throw system_error("write", partial_, failed);
  throw io_error("{}: another process is writing it; wait until it ends, or name another file",
                 path_.string());
}

ResumableLines::~ResumableLines() {
  if (descriptor_ < 0) return;
  if (bytes_ == 0) ::unlink(partial_.c_str());  // nothing that a next start could go on from
  ::close(descriptor_);
}

std::vector<fs::path> ResumableLines::others() const {
  std::vector<fs::path> found;
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  const std::string name = path_.filename().string() + ".";
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string other = entry.path().filename().string();
    if (other.starts_with(name) && other.ends_with(".partial") &&
        other != partial_.filename().string())
      found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

void ResumableLines::append(std::span<const std::string> block) {
  std::string text;
  for (const std::string& line : block) text += line + "\n";
  write_fully_at(descriptor_, std::as_bytes(std::span(text)), bytes_, partial_);
  sync_descriptor(descriptor_, partial_);
  bytes_ += std::ssize(text);
}

void ResumableLines::commit() { rename_synced(partial_, path_); }

}  // namespace gpuhpc
