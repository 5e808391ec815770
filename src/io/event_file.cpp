#include "gpuhpc/io/event_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <boost/crc.hpp>
#include <cerrno>
#include <ctime>

#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are copied as they lie in memory");

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// CRC-32C, then TFRecord's mask: a checksum of data that holds its own checksum would be a
// constant.
std::string checksum(const std::string& bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return bytes_of(std::rotr(static_cast<std::uint32_t>(crc.checksum()), 15) + 0xa282ead8U);
}

// Protobuf: a field is its number and type, then its value.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number_field(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(value);
}
std::string double_field(int field, double value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 1) + bytes_of(value);
}
std::string text_field(int field, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string float_field(int field, float value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 5) + bytes_of(value);
}

enum EventField { wall_time = 1, step_number = 2, file_version = 3, summary = 5, session_log = 7 };
enum SummaryField { summary_value = 1 };
enum ValueField { tag = 1, simple_value = 2 };
enum SessionField { status = 1, start = 1 };

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, const std::string& host, double first)
    : path_(folder / fmt::format("events.out.tfevents.{:010d}.{}.{}", std::time(nullptr), host,
                                 ::getpid())) {
  create_folder(folder);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw system_error("create", path_, errno);
  append(double_field(wall_time, first) + text_field(file_version, "brain.Event:2"));
  append(double_field(wall_time, first) + text_field(session_log, number_field(status, start)));
}

EventFile::~EventFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void EventFile::write(std::int64_t step, double time, std::span<const Scalar> scalars) {
  std::string values;
  for (const Scalar& scalar : scalars)
    values +=
        text_field(summary_value, text_field(tag, scalar.tag) +
                                      float_field(simple_value, static_cast<float>(scalar.value)));
  append(double_field(wall_time, time) +
         number_field(step_number, static_cast<std::uint64_t>(step)) + text_field(summary, values));
}

void EventFile::append(const std::string& event) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(event.size())),
                    record = length + checksum(length) + event + checksum(event);
  write_fully_at(descriptor_, std::as_bytes(std::span(record)), size_, path_);
  size_ += std::ssize(record);
}

}  // namespace gpuhpc
