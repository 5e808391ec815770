#pragma once
#include <filesystem>

namespace gpuhpc {

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
