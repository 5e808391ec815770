#include "gpuhpc/base/system_error.hpp"

#include <cerrno>
#include <cstring>
#include <system_error>

namespace gpuhpc {
namespace {

std::string cure(int error_number) {
  switch (error_number) {
    case ENOSPC:
      return "the disk is full; free some space and start again";
    case EDQUOT:
      return "the disk quota is used up; free some space and start again";
    case EACCES:
    case EPERM:
      return "permission denied; choose a path that you may use or change its rights";
    case EROFS:
      return "the file system is read-only; choose another path";
    case ENOENT:
      return "no such file or folder; check the path";
    case ENOTDIR:
      return "a part of the path is a file, not a folder; check the path";
    case EISDIR:
      return "this is a folder; give the path of a file";
    case EMFILE:
    case ENFILE:
      return "too many open files; raise `ulimit -n`";
    case EFBIG:
      return "the file would be larger than the limit; raise `ulimit -f` or use another file "
             "system";
    case EIO:
      return "the device reported an error; check the disk";
    default:
      return std::string(std::strerror(error_number)) + "; check the disk and the path";
  }
}

}  // namespace

Error system_error(std::string_view action, const std::filesystem::path& path, int error_number) {
  return io_error("cannot {} {}: {}", action, path.string(), cure(error_number));
}

Error error_of(const std::exception& exception) {
  if (const auto* ours = dynamic_cast<const Error*>(&exception)) return *ours;
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&exception))
    return system_error("use", file->path1(), file->code().value());
  const auto* call = dynamic_cast<const std::system_error*>(&exception);
  // Of no file: the standard library throws it where a thread cannot be created.
  if (call != nullptr && call->code().value() == EAGAIN)
    return configuration_error(
        "cannot start another thread ({}); raise `ulimit -u` or the cgroup's pids limit, or lower "
        "--device.threads",
        call->what());
  if (call != nullptr) return io_error("{}: {}", call->what(), cure(call->code().value()));
  return {ExitCode::internal, exception.what()};
}

}  // namespace gpuhpc
