#pragma once
// A file of lines that is hours in the making: what is there when the process is killed stays, and
// the next one goes on behind it.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace gpuhpc {

class ResumableLines {
 public:
  // Lines come in blocks of `block`, the last one perhaps shorter, into PATH.TASK.partial until
  // commit(). Whole blocks that a process with the same `task` (a fingerprint of all that the lines
  // follow from) left there stay. io_error where another process writes it.
  ResumableLines(const std::filesystem::path& path, const std::string& task, std::int64_t block);
  ~ResumableLines();
  ResumableLines(const ResumableLines&) = delete;
  ResumableLines& operator=(const ResumableLines&) = delete;

  std::int64_t done() const { return done_; }  // lines that were there
  const std::filesystem::path& partial() const { return partial_; }
  // What lies beside it for other tasks.
  std::vector<std::filesystem::path> others() const;
  void append(std::span<const std::string> block);  // on the disk when this returns
  void commit();                                    // the file appears under its name

 private:
  std::filesystem::path path_, partial_;
  std::int64_t done_ = 0, bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace gpuhpc
