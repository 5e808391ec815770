#include "hdf5_handles.hpp"

#include <xxhash.h>

#include <cstring>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"

namespace gpuhpc::hdf5 {
namespace {

constexpr char magic[8] = {'G', 'P', 'U', 'H', 'P', 'C', '5', '\n'};
constexpr std::uint32_t version = 1;

struct Head {
  char magic[8];
  std::uint32_t version, extents;
  std::int64_t file_bytes;
  std::uint64_t structure_checksum;
};
constexpr std::size_t checksum_at = user_block_bytes - sizeof(std::uint64_t);
constexpr std::size_t max_extents = (checksum_at - sizeof(Head)) / sizeof(Extent);

struct TypeRow {
  ElementType type;
  hid_t stored;
  std::string_view name;
};
std::array<TypeRow, 10> type_table() {
  return {{{ElementType::int8, H5T_STD_I8LE, "int8"},
           {ElementType::uint8, H5T_STD_U8LE, "uint8"},
           {ElementType::int16, H5T_STD_I16LE, "int16"},
           {ElementType::uint16, H5T_STD_U16LE, "uint16"},
           {ElementType::int32, H5T_STD_I32LE, "int32"},
           {ElementType::uint32, H5T_STD_U32LE, "uint32"},
           {ElementType::int64, H5T_STD_I64LE, "int64"},
           {ElementType::uint64, H5T_STD_U64LE, "uint64"},
           {ElementType::float32, H5T_IEEE_F32LE, "float32"},
           {ElementType::float64, H5T_IEEE_F64LE, "float64"}}};
}

}  // namespace

std::array<std::byte, user_block_bytes> encode(const UserBlock& block) {
  if (block.data.size() > max_extents)
    throw internal_error("an HDF5 file of gpuhpc holds at most {} datasets", max_extents);
  std::array<std::byte, user_block_bytes> bytes{};
  Head head{{},
            version,
            static_cast<std::uint32_t>(block.data.size()),
            block.file_bytes,
            block.structure_checksum};
  std::memcpy(head.magic, magic, sizeof magic);
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!block.data.empty())
    std::memcpy(bytes.data() + sizeof head, block.data.data(), block.data.size() * sizeof(Extent));
  const std::uint64_t checksum = xxh3(std::span(bytes).first(checksum_at));
  std::memcpy(bytes.data() + checksum_at, &checksum, sizeof checksum);
  return bytes;
}

UserBlock decode(std::span<const std::byte> file, const std::filesystem::path& path) {
  if (file.size() < user_block_bytes || std::memcmp(file.data(), magic, sizeof magic) != 0) {
    throw input_error(
        "{}: this is not an HDF5 file written by gpuhpc, or its beginning is damaged; make it "
        "again",
        path.string());
  }
  std::uint64_t checksum;
  std::memcpy(&checksum, file.data() + checksum_at, sizeof checksum);
  Head head;
  std::memcpy(&head, file.data(), sizeof head);
  if (checksum != xxh3(file.first(checksum_at)) || head.extents > max_extents) {
    throw input_error("{}: the first 4 KiB are damaged (checksum); make the file again",
                      path.string());
  }
  if (head.version != version) {
    throw input_error(
        "{}: written by another version of gpuhpc (format {}, this one reads {}); make the file "
        "again",
        path.string(), head.version, version);
  }
  if (head.file_bytes != std::ssize(file)) {
    throw input_error(
        "{}: the file has {} bytes but {} were written: it was cut short or added to; make it "
        "again",
        path.string(), file.size(), head.file_bytes);
  }
  UserBlock block{head.file_bytes, head.structure_checksum, std::vector<Extent>(head.extents)};
  if (head.extents > 0)
    std::memcpy(block.data.data(), file.data() + sizeof head, head.extents * sizeof(Extent));
  std::int64_t end = user_block_bytes;
  for (const Extent& extent : block.data) {
    if (extent.offset < end || extent.bytes < 0 || extent.bytes > head.file_bytes - extent.offset) {
      throw input_error("{}: a dataset lies outside the file; make the file again", path.string());
    }
    end = extent.offset + extent.bytes;
  }
  return block;
}

std::uint64_t structure_checksum(std::span<const std::byte> file, const std::vector<Extent>& data) {
  XXH3_state_t* stream = XXH3_createState();
  XXH3_64bits_reset(stream);
  std::size_t at = user_block_bytes;
  for (const Extent& extent : data) {
    const auto offset = static_cast<std::size_t>(extent.offset);
    XXH3_64bits_update(stream, file.data() + at, offset - at);
    at = offset + static_cast<std::size_t>(extent.bytes);
  }
  XXH3_64bits_update(stream, file.data() + at, file.size() - at);
  const std::uint64_t digest = XXH3_64bits_digest(stream);
  XXH3_freeState(stream);
  return digest;
}

void silence_library() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

Handle file_access() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_alignment(access, 1, 4096);
  H5Pset_file_locking(access, 0, 1);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  return access;
}

Handle make_type(ElementType type, std::int64_t string_width) {
  if (type == ElementType::string) {
    Handle made(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(made, static_cast<std::size_t>(string_width));
    H5Tset_strpad(made, H5T_STR_NULLPAD);
    H5Tset_cset(made, H5T_CSET_UTF8);
    return made;
  }
  for (const TypeRow& row : type_table()) {
    if (row.type == type) return {H5Tcopy(row.stored), H5Tclose};
  }
  throw internal_error("no HDF5 type for element type {}", static_cast<int>(type));
}

Handle variable_string_type() {
  Handle made(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(made, H5T_VARIABLE);
  H5Tset_cset(made, H5T_CSET_UTF8);
  return made;
}

bool element_type(hid_t type, ElementType& found, std::int64_t& string_width) {
  if (H5Tget_class(type) == H5T_STRING) {
    found = ElementType::string;
    string_width = H5Tis_variable_str(type) > 0 ? 0 : static_cast<std::int64_t>(H5Tget_size(type));
    return true;
  }
  for (const TypeRow& row : type_table()) {
    if (H5Tequal(type, row.stored) > 0) {
      found = row.type;
      return true;
    }
  }
  return false;
}

std::string_view name_of(ElementType type) {
  if (type == ElementType::string) return "string";
  for (const TypeRow& row : type_table()) {
    if (row.type == type) return row.name;
  }
  return "unknown";
}

}  // namespace gpuhpc::hdf5

bool gpuhpc::hdf5_is_threadsafe() {
  hbool_t is = 0;
  return H5is_library_threadsafe(&is) >= 0 && is > 0;
}
