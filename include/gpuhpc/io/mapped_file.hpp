#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace gpuhpc {

// A whole file mapped for reading. Empty files give an empty span.
class MappedFile {
 public:
  enum class Access { normal, sequential };
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path, Access access = Access::normal);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    swap(other);
    return *this;
  }

  std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }
  std::int64_t size() const { return size_; }
  // From here on pages are read one by one: what lies beside them is not read ahead.
  void expect_random_reads() const;
  // This process lets go of these pages; they come back from the file when they are touched again.
  void let_go(std::span<const std::byte> pages) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  void swap(MappedFile& other) {
    std::swap(data_, other.data_), std::swap(size_, other.size_), path_.swap(other.path_);
  }
  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
  std::filesystem::path path_;
};

}  // namespace gpuhpc
