#pragma once
// Files that are either whole or not there: written under `NAME.tmp`, synced, renamed into place,
// folder synced. Every failure is an io_error (exit 74) that names the file, the reason and the
// cure.
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "gpuhpc/base/system_error.hpp"

namespace gpuhpc {

class AtomicFile {
 public:
  // A symbolic link is followed; something that is no regular file (/dev/stdout, a pipe) is written
  // to directly.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();  // without commit() nothing is left behind and the old file stays
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);  // buffered
  void write(std::span<const std::byte> bytes);
  void commit();
  const std::filesystem::path& path() const { return path_; }
  // Where it is written until commit(); empty for what is written to directly.
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  void flush();
  std::filesystem::path path_, temporary_;  // temporary_ empty: direct
  int descriptor_ = -1;
  std::string buffer_;
};

void write_text_file(const std::filesystem::path& path, std::string_view text);
std::string read_text_file(const std::filesystem::path& path);
// Copies byte for byte, atomically.
void copy_file(const std::filesystem::path& from, const std::filesystem::path& to);
// Appends one line (for metrics.jsonl): one write() call, so a reader never sees half a line of a
// living writer.
void append_line(const std::filesystem::path& path, std::string_view line);
void create_folder(const std::filesystem::path& folder);  // with its parents; fine when it exists
void remove_file(const std::filesystem::path& path);      // fine when it is not there

// Opens the temporary file of `path`, empty, under a lock that ends with the descriptor: a
// left-over of a killed run is taken over, a living writer is an io_error.
int open_temporary(const std::filesystem::path& temporary, const std::filesystem::path& path);
// Whole-buffer pwrite and fsync on a descriptor, then the steps that make a temporary file final.
void write_fully_at(int descriptor, std::span<const std::byte> bytes, std::int64_t offset,
                    const std::filesystem::path& path);
void sync_descriptor(int descriptor, const std::filesystem::path& path);
void rename_synced(const std::filesystem::path& temporary, const std::filesystem::path& path);

// Holds `folder`/.lock for the life of the object (flock: it ends with the process, also by
// SIGKILL). A second holder gets a configuration_error (exit 78): "another gpuhpc is running in
// FOLDER (pid N on host H)".
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);  // the folder is made when missing
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace gpuhpc
