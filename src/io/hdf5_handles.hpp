#pragma once
// What writing and reading of our HDF5 files share: handles, types, the user block.
#include <hdf5.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/io/hdf5.hpp"

namespace gpuhpc::hdf5 {

class Handle {
 public:
  using Closer = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Closer closer) : id_(id), closer_(closer) {}
  ~Handle() { close(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(closer_, other.closer_);
    return *this;
  }
  bool close() { return id_ < 0 || closer_(std::exchange(id_, -1)) >= 0; }
  operator hid_t() const { return id_; }

 private:
  hid_t id_ = -1;
  Closer closer_ = nullptr;
};

inline constexpr std::int64_t user_block_bytes = 4096;
inline constexpr std::string_view checksum_suffix = ".xxh3";

struct Extent {
  std::int64_t offset = 0, bytes = 0;
};

// Written in front of the HDF5 part; see hdf5.hpp.
struct UserBlock {
  std::int64_t file_bytes = 0;
  std::uint64_t structure_checksum = 0;
  std::vector<Extent> data;  // ascending
};
std::array<std::byte, user_block_bytes> encode(const UserBlock& block);
UserBlock decode(std::span<const std::byte> file,
                 const std::filesystem::path& path);  // input_error when damaged
// xxh3 of everything behind the user block that is no data.
std::uint64_t structure_checksum(std::span<const std::byte> file, const std::vector<Extent>& data);

void silence_library();  // its own messages; ours name file and cure
Handle file_access();    // property list: no locks of its own, everything 4 KiB aligned
Handle make_type(ElementType type, std::int64_t string_width);
Handle variable_string_type();
bool element_type(hid_t type, ElementType& found,
                  std::int64_t& string_width);  // false: not one of ours
std::string_view name_of(ElementType type);

}  // namespace gpuhpc::hdf5
