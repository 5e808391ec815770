#pragma once
// TensorBoard's event files, readable while they grow: TFRecords (length, its checksum, bytes,
// their checksum), one protobuf message Event each (TensorFlow: record_writer.h, event.proto,
// summary.proto). Only what scalars need is written.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace gpuhpc {

struct Scalar {
  std::string tag;
  double value = 0;  // TensorBoard keeps it as a 32-bit float; NaN and infinities are fine
};

class EventFile {
 public:
  // `folder`/events.out.tfevents.SECONDS.`host`.PID, the folder made when it is not there; SECONDS
  // since 1970, now: readers go on with a file of a later name. It says that a session starts, so
  // that they forget what they saw of earlier files. `first`: time of the first event, seconds
  // since 1970.
  EventFile(const std::filesystem::path& folder, const std::string& host, double first);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // In the file when it returns, in one system call. `time`: seconds since 1970.
  void write(std::int64_t step, double time, std::span<const Scalar> scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  void append(const std::string& event);
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;  // bytes so far
};

}  // namespace gpuhpc
