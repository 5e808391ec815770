#pragma once
// Our HDF5 files: flat contiguous datasets, 4 KiB aligned, readable by h5py, mapped for reading.
// A user block of 4 KiB in front holds the file's size, the place of the data and a checksum of
// everything else (structure, attributes, the data's own block checksums in `NAME.xxh3`), so the
// HDF5 library never sees a damaged file.
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gpuhpc/base/matrix.hpp"

namespace gpuhpc {

enum class ElementType {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float32,
  float64,
  string
};

template <typename T>
constexpr ElementType element_type_of() {
  if constexpr (std::is_same_v<T, float>)
    return ElementType::float32;
  else if constexpr (std::is_same_v<T, double>)
    return ElementType::float64;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return ElementType::int8;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return ElementType::uint8;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return ElementType::int16;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return ElementType::uint16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return ElementType::int32;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return ElementType::uint32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return ElementType::int64;
  else {
    static_assert(std::is_same_v<T, std::uint64_t>, "not an element type");
    return ElementType::uint64;
  }
}

// One dataset to be made. Strings are fixed-width UTF-8, padded with zero bytes.
struct ArraySpec {
  std::string name;
  ElementType type = ElementType::float32;
  std::vector<std::int64_t> shape;  // one or two dimensions
  std::int64_t string_width = 0;    // bytes, for ElementType::string
  std::int64_t element_bytes() const;
  std::int64_t bytes() const;      // of the whole dataset
  std::int64_t row_bytes() const;  // of one index of the first dimension
};

// Placed dataset: where its bytes are in the file.
struct ArrayPlace {
  ArraySpec spec;
  std::int64_t offset = 0, checksum_offset = 0;
};

// May this build of the HDF5 library be called from several threads?
bool hdf5_is_threadsafe();

// Writes one file: give the datasets in any order, then commit(). Nothing is left behind without
// commit(). The bytes depend on names, values and order alone (no times).
class Hdf5Writer {
 public:
  explicit Hdf5Writer(const std::filesystem::path& path);
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  template <typename T>
  void dataset(const std::string& name, std::span<const T> values) {
    write_whole({name, element_type_of<T>(), {std::ssize(values)}}, std::as_bytes(values));
  }
  template <typename T>
  void dataset(const std::string& name, std::span<const T> values,
               std::vector<std::int64_t> shape) {
    write_whole({name, element_type_of<T>(), std::move(shape)}, std::as_bytes(values));
  }
  void matrix(const std::string& name, MatrixView values);
  void strings(const std::string& name,
               std::span<const std::string> values);  // fixed width: mapped, random access
  void variable_strings(const std::string& name,
                        std::span<const std::string> values);         // for few, long texts
  void attribute(const std::string& name, const std::string& value);  // of the file
  // Space for a dataset whose values come later through write_rows().
  void reserve(const ArraySpec& spec);
  void write_rows(const std::string& name, std::int64_t first_row,
                  std::span<const std::byte> bytes);
  void commit();

  // For files that many ranks fill: ends the structure and returns where everything is; the
  // temporary file stays until seal_hdf5() has made it final.
  std::vector<ArrayPlace> release();
  const std::filesystem::path& temporary() const;

 private:
  void write_whole(const ArraySpec& spec, std::span<const std::byte> bytes);
  struct State;
  std::unique_ptr<State> state_;
};

inline constexpr std::int64_t checksum_block_bytes = std::int64_t{1}
                                                     << 20;  // data under one checksum
// xxh3 of the blocks [first, last) of a dataset, read from `descriptor`.
std::vector<std::uint64_t> block_checksums(int descriptor, const ArrayPlace& place,
                                           std::int64_t first, std::int64_t last,
                                           const std::filesystem::path& path);
std::int64_t checksum_count(const ArraySpec& spec);
// Writes the block checksums (one vector a place) and the user block, syncs and renames.
void seal_hdf5(const std::filesystem::path& temporary, const std::filesystem::path& path,
               const std::vector<ArrayPlace>& places,
               const std::vector<std::vector<std::uint64_t>>& checksums);

// Strings of fixed width in a mapping: [i] is a view without the padding.
class StringColumn {
 public:
  StringColumn() = default;
  StringColumn(const char* data, std::int64_t width, std::int64_t count)
      : data_(data), width_(width), count_(count) {}
  std::int64_t size() const { return count_; }
  std::string_view operator[](std::int64_t i) const {
    const std::string_view cell(data_ + i * width_, static_cast<std::size_t>(width_));
    const auto end = cell.find_last_not_of('\0');
    return end == cell.npos ? std::string_view{} : cell.substr(0, end + 1);
  }

 private:
  const char* data_ = nullptr;
  std::int64_t width_ = 0, count_ = 0;
};

// Reads our files. Spans and views live as long as this object. Damage, a missing name or another
// type or shape is an input_error that names file and dataset; the cure is to make the file again.
class Hdf5File {
 public:
  enum class Verify {
    all,
    structure
  };  // structure: data blocks are not read; verify(name) does it later
  explicit Hdf5File(const std::filesystem::path& path, Verify verify = Verify::all);
  ~Hdf5File();
  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;

  void expect_random_reads() const;  // as MappedFile

  bool has(const std::string& name) const;
  std::vector<std::string> names() const;
  const ArraySpec& spec(const std::string& name) const;
  template <typename T>
  std::span<const T> dataset(const std::string& name) const {
    const auto bytes = raw(name, element_type_of<T>());
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  BasicMatrixView<const T> array2d(const std::string& name) const {  // (rows, columns)
    const auto [rows, columns] = two_dimensions(name);
    return {dataset<T>(name).data(), rows, columns};
  }
  MatrixView matrix(const std::string& name) const { return array2d<float>(name); }
  // Throws unless the dataset has this shape.
  void expect(const std::string& name, const std::vector<std::int64_t>& shape) const;
  StringColumn strings(const std::string& name) const;  // fixed width
  std::vector<std::string> variable_strings(const std::string& name) const;
  std::string attribute(const std::string& name) const;
  const std::map<std::string, std::string>& attributes() const;
  void verify(const std::string& name) const;  // block checksums of one dataset
  const std::filesystem::path& path() const;

 private:
  std::span<const std::byte> raw(const std::string& name, ElementType type) const;
  std::pair<std::int64_t, std::int64_t> two_dimensions(const std::string& name) const;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpuhpc
