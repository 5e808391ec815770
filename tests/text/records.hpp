#pragma once
// Reads the gzipped fixtures: a little-endian count, then that many bytes or ids.
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpuhpc {

inline std::string read_gz(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path);
  std::string data(std::size_t{1} << 16, '\0'), all;
  for (int got = 1; got > 0;) {
    got = gzread(file, data.data(), static_cast<unsigned>(data.size()));
    if (got > 0) all.append(data, 0, static_cast<std::size_t>(got));
  }
  gzclose(file);
  return all;
}

template <typename Item>
std::vector<std::vector<Item>> read_records(const std::string& path) {
  const std::string data = read_gz(path);
  std::vector<std::vector<Item>> records;
  for (std::size_t at = 0; at + 4 <= data.size();) {
    std::uint32_t count;
    std::memcpy(&count, data.data() + at, 4);
    at += 4;
    if (at + count * sizeof(Item) > data.size()) throw std::runtime_error(path + " is cut");
    std::vector<Item> record(count);
    if (count != 0) std::memcpy(record.data(), data.data() + at, count * sizeof(Item));
    at += count * sizeof(Item);
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace gpuhpc
