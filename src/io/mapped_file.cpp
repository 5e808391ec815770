#include "gpuhpc/io/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {

MappedFile::MappedFile(const std::filesystem::path& path, Access access) : path_(path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw system_error("open", path, errno);
  struct stat status {};
  void* mapping = nullptr;
  int failed = 0;
  if (::fstat(descriptor, &status) != 0) {
    failed = errno;
  } else if (!S_ISREG(status.st_mode)) {
    failed = S_ISDIR(status.st_mode) ? EISDIR : ENODEV;
  } else if (status.st_size > 0) {
    mapping = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED,
                     descriptor, 0);
    if (mapping == MAP_FAILED) failed = errno;
  }
  ::close(descriptor);
  if (failed != 0) throw system_error("map", path, failed);
  data_ = static_cast<const std::byte*>(mapping);
  size_ = status.st_size;
  if (mapping != nullptr && access == Access::sequential)
    ::madvise(mapping, static_cast<std::size_t>(size_), MADV_SEQUENTIAL);
}

void MappedFile::expect_random_reads() const {
  if (data_ != nullptr)
    ::madvise(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_), MADV_RANDOM);
}

void MappedFile::let_go(std::span<const std::byte> pages) const {
  constexpr std::uintptr_t page = 4096;
  const auto first = (reinterpret_cast<std::uintptr_t>(pages.data()) + page - 1) / page * page;
  const auto last = reinterpret_cast<std::uintptr_t>(pages.data() + pages.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_));
}

}  // namespace gpuhpc
