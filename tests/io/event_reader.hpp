#pragma once
// Reads event files by the published format alone: shares no code with the writer.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpuhpc {

// Bit by bit, polynomial 0x1EDC6F41 reflected.
inline std::uint32_t crc32c(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

struct ReadEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version;
  bool session_start = false;
  std::map<std::string, float> scalars;
};

class ProtoReader {
 public:
  explicit ProtoReader(std::string bytes) : bytes_(std::move(bytes)) {}
  bool next() {  // the next field: number, and value or bytes
    if (at_ == bytes_.size()) return false;
    const std::uint64_t key = varint();
    field = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        value = varint();
        break;
      case 1:
        text = take(8);
        break;
      case 2:
        text = take(varint());
        break;
      case 5:
        text = take(4);
        break;
      default:
        throw std::runtime_error("unknown wire type");
    }
    return true;
  }
  template <typename T>
  T as() const {
    T result;
    if (text.size() != sizeof result) throw std::runtime_error("a value of another size");
    std::memcpy(&result, text.data(), sizeof result);
    return result;
  }
  int field = 0;
  std::uint64_t value = 0;
  std::string text;

 private:
  std::uint64_t varint() {
    std::uint64_t result = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      result |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return result;
    }
  }
  std::string take(std::size_t size) {
    if (bytes_.size() - at_ < size) throw std::runtime_error("a message ends too early");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::string bytes_;
  std::size_t at_ = 0;
};

inline ReadEvent parse_event(const std::string& bytes) {
  ReadEvent event;
  for (ProtoReader field(bytes); field.next();) {
    if (field.field == 1) event.wall_time = field.as<double>();
    if (field.field == 2) event.step = static_cast<std::int64_t>(field.value);
    if (field.field == 3) event.file_version = field.text;
    if (field.field == 7)
      for (ProtoReader session(field.text); session.next();)
        event.session_start = session.field == 1 && session.value == 1;
    if (field.field != 5) continue;
    for (ProtoReader summary(field.text); summary.next();) {
      std::string tag;
      float number = 0;
      for (ProtoReader value(summary.text); value.next();) {
        if (value.field == 1) tag = value.text;
        if (value.field == 2) number = value.as<float>();
      }
      event.scalars[tag] = number;
    }
  }
  return event;
}

// Throws for a wrong checksum or a record that is cut off.
inline std::vector<ReadEvent> read_events(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::size_t at = 0;
  const auto take = [&](std::size_t size) {
    if (bytes.size() - at < size) throw std::runtime_error("a record is cut off");
    at += size;
    return bytes.substr(at - size, size);
  };
  const auto checked = [&](const std::string& data) {
    std::uint32_t stored = 0;
    std::memcpy(&stored, take(4).data(), 4);
    const std::uint32_t crc = crc32c(data);
    if (stored != static_cast<std::uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8U))
      throw std::runtime_error("a checksum is wrong");
    return data;
  };
  std::vector<ReadEvent> events;
  while (at < bytes.size()) {
    std::uint64_t size = 0;
    std::memcpy(&size, checked(take(8)).data(), 8);
    events.push_back(parse_event(checked(take(size))));
  }
  return events;
}

// The only event file of a folder that holds something.
inline std::filesystem::path event_file(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.file_size() > 0) files.push_back(entry.path());
  EXPECT_EQ(files.size(), 1U) << folder;
  return files.at(0);
}

}  // namespace gpuhpc
