#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/hdf5.hpp"
#include "gpuhpc/io/mapped_file.hpp"
#include "hdf5_handles.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
using hdf5::Handle;
namespace {

// The library works in memory: it has no reason to fail but a lack of that.
template <typename T>
T checked(T result, const fs::path& path) {
  if (result < 0)
    throw io_error("cannot write {}: the HDF5 library reported an error; is the memory used up?",
                   path.string());
  return result;
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return value_; }

 private:
  int value_;
};

void read_fully_at(int descriptor, std::span<std::byte> bytes, std::int64_t offset,
                   const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor, bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("read", path, errno);
    if (got == 0)
      throw io_error(
          "cannot read back {}: it became shorter while it was being written; is another program "
          "using it?",
          path.string());
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

std::vector<std::uint64_t> checksums_of(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> all;
  for (std::size_t at = 0; at < bytes.size(); at += checksum_block_bytes) {
    all.push_back(
        xxh3(bytes.subspan(at, std::min<std::size_t>(checksum_block_bytes, bytes.size() - at))));
  }
  return all;
}

}  // namespace

std::int64_t ArraySpec::element_bytes() const {
  switch (type) {
    case ElementType::int8:
    case ElementType::uint8:
      return 1;
    case ElementType::int16:
    case ElementType::uint16:
      return 2;
    case ElementType::int32:
    case ElementType::uint32:
    case ElementType::float32:
      return 4;
    case ElementType::int64:
    case ElementType::uint64:
    case ElementType::float64:
      return 8;
    case ElementType::string:
      return string_width;
  }
  return 0;
}

std::int64_t ArraySpec::bytes() const {
  std::int64_t total = element_bytes();
  for (const auto extent : shape) total *= extent;
  return total;
}

std::int64_t ArraySpec::row_bytes() const {
  std::int64_t total = element_bytes();
  for (std::size_t i = 1; i < shape.size(); ++i) total *= shape[i];
  return total;
}

std::int64_t checksum_count(const ArraySpec& spec) {
  return (spec.bytes() + checksum_block_bytes - 1) / checksum_block_bytes;
}

std::vector<std::uint64_t> block_checksums(int descriptor, const ArrayPlace& place,
                                           std::int64_t first, std::int64_t last,
                                           const fs::path& path) {
  std::vector<std::byte> block;
  std::vector<std::uint64_t> all;
  for (std::int64_t i = first; i < last; ++i) {
    const std::int64_t at = i * checksum_block_bytes;
    block.resize(static_cast<std::size_t>(std::min(checksum_block_bytes, place.spec.bytes() - at)));
    read_fully_at(descriptor, block, place.offset + at, path);
    all.push_back(xxh3(block));
  }
  return all;
}

void seal_hdf5(const fs::path& temporary, const fs::path& path,
               const std::vector<ArrayPlace>& places,
               const std::vector<std::vector<std::uint64_t>>& checksums) {
  const Descriptor descriptor(::open(temporary.c_str(), O_RDWR | O_CLOEXEC));
  if (descriptor < 0) throw system_error("open", temporary, errno);
  hdf5::UserBlock block;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (std::ssize(checksums[i]) != checksum_count(places[i].spec))
      throw internal_error("{}: checksums of `{}` are missing", path.string(), places[i].spec.name);
    if (places[i].spec.bytes() == 0) continue;
    write_fully_at(descriptor, std::as_bytes(std::span(checksums[i])), places[i].checksum_offset,
                   path);
    block.data.push_back({places[i].offset, places[i].spec.bytes()});
  }
  std::sort(block.data.begin(), block.data.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  {
    const MappedFile mapped(temporary);
    block.file_bytes = mapped.size();
    block.structure_checksum = hdf5::structure_checksum(mapped.bytes(), block.data);
  }
  write_fully_at(descriptor, hdf5::encode(block), 0, path);
  sync_descriptor(descriptor, path);
  rename_synced(temporary, path);
}

// The HDF5 library never writes to the disk: after a failed write it can close neither file nor
// itself (1.10 ends in SIGSEGV at exit). It makes the structure in a file in memory, where the data
// are holes; structure and data reach the disk by our own calls.
struct Hdf5Writer::State {
  fs::path path, temporary;
  int lock = -1;       // the temporary file, and the descriptor through which it is written
  int structure = -1;  // the file in memory
  Handle file;         // in `structure`
  std::vector<ArrayPlace> places;
  std::vector<std::optional<std::vector<std::uint64_t>>> checksums;
  std::vector<std::string> names;
  bool finished = false;

  ~State() {
    file.close();
    if (structure >= 0) ::close(structure);
    if (!finished && lock >= 0) ::unlink(temporary.c_str());
    if (lock >= 0) ::close(lock);
  }

  std::string structure_path() const { return fmt::format("/proc/self/fd/{}", structure); }
  // The library's default driver asks for the real path of a link, which this file has not.
  static Handle structure_access() {
    Handle access = hdf5::file_access();
    H5Pset_fapl_stdio(access);
    return access;
  }

  // All of the file in memory that is no data, between and behind the data already written.
  void copy_structure() const {
    struct stat facts {};
    if (::fstat(structure, &facts) != 0) throw system_error("write", path, errno);
    std::vector<ArrayPlace> data = places;
    std::ranges::sort(data, {}, &ArrayPlace::offset);
    data.push_back({{}, facts.st_size, 0});
    std::vector<std::byte> bytes;
    std::int64_t at = 0;
    for (const ArrayPlace& place : data) {
      if (place.spec.bytes() == 0 && place.offset == 0) continue;
      bytes.resize(static_cast<std::size_t>(place.offset - at));
      read_fully_at(structure, bytes, at, path);
      write_fully_at(lock, bytes, at, path);
      at = place.offset + place.spec.bytes();
    }
    if (::ftruncate(lock, facts.st_size) != 0) throw system_error("write", path, errno);
  }

  void check_name(const std::string& name) {
    const bool known = std::find(names.begin(), names.end(), name) != names.end();
    if (known || name.empty() || name.find('/') != name.npos ||
        name.ends_with(hdf5::checksum_suffix)) {
      throw internal_error("`{}` cannot name a dataset of {}", name, path.string());
    }
    names.push_back(name);
  }

  // Space for a contiguous dataset; its offset in the file, or 0 when it holds nothing.
  std::int64_t place(const ArraySpec& spec) {
    const Handle type = hdf5::make_type(spec.type, spec.string_width);
    const std::vector<hsize_t> dimensions(spec.shape.begin(), spec.shape.end());
    const Handle space(
        checked(H5Screate_simple(static_cast<int>(dimensions.size()), dimensions.data(), nullptr),
                path),
        H5Sclose);
    const Handle creation(checked(H5Pcreate(H5P_DATASET_CREATE), path), H5Pclose);
    H5Pset_layout(creation, H5D_CONTIGUOUS);
    H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
    H5Pset_obj_track_times(creation, false);
    const Handle dataset(checked(H5Dcreate2(file, spec.name.c_str(), type, space, H5P_DEFAULT,
                                            creation, H5P_DEFAULT),
                                 path),
                         H5Dclose);
    if (spec.bytes() == 0) return 0;
    const haddr_t offset = H5Dget_offset(dataset);
    if (offset == HADDR_UNDEF) throw internal_error("HDF5 gave `{}` no place", spec.name);
    return static_cast<std::int64_t>(offset);
  }

  std::size_t index_of(const std::string& name) const {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].spec.name == name) return i;
    }
    throw internal_error("{} has no dataset `{}`", path.string(), name);
  }
};

Hdf5Writer::Hdf5Writer(const fs::path& path) : state_(std::make_unique<State>()) {
  hdf5::silence_library();
  state_->path = path;
  state_->temporary = path;
  state_->temporary += ".tmp";
  state_->lock = open_temporary(state_->temporary, path);
  state_->structure = ::memfd_create("gpuhpc-hdf5", MFD_CLOEXEC);
  if (state_->structure < 0) throw system_error("create", path, errno);
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_userblock(creation, hdf5::user_block_bytes);
  const Handle access = State::structure_access();
  state_->file = Handle(
      checked(H5Fcreate(state_->structure_path().c_str(), H5F_ACC_TRUNC, creation, access), path),
      H5Fclose);
}

Hdf5Writer::~Hdf5Writer() = default;

void Hdf5Writer::reserve(const ArraySpec& spec) {
  state_->check_name(spec.name);
  if (spec.shape.empty() || spec.shape.size() > 2)
    throw internal_error("dataset `{}` must have one or two dimensions", spec.name);
  if (spec.type == ElementType::string && spec.string_width < 1)
    throw internal_error("strings of `{}` need a width", spec.name);
  ArrayPlace place{spec, state_->place(spec), 0};
  if (place.spec.bytes() > 0) {
    place.checksum_offset = state_->place({spec.name + std::string(hdf5::checksum_suffix),
                                           ElementType::uint64,
                                           {checksum_count(spec)},
                                           0});
  }
  state_->places.push_back(std::move(place));
  state_->checksums.emplace_back();
}

void Hdf5Writer::write_rows(const std::string& name, std::int64_t first_row,
                            std::span<const std::byte> bytes) {
  const ArrayPlace& place = state_->places[state_->index_of(name)];
  const std::int64_t at = first_row * place.spec.row_bytes();
  if (first_row < 0 || at + std::ssize(bytes) > place.spec.bytes())
    throw internal_error("rows beyond the end of dataset `{}`", name);
  write_fully_at(state_->lock, bytes, place.offset + at, state_->path);
}

void Hdf5Writer::write_whole(const ArraySpec& spec, std::span<const std::byte> bytes) {
  if (spec.bytes() != std::ssize(bytes))
    throw internal_error("the shape of dataset `{}` does not fit its values", spec.name);
  reserve(spec);
  write_rows(spec.name, 0, bytes);
  state_->checksums.back() = checksums_of(bytes);
}

void Hdf5Writer::matrix(const std::string& name, MatrixView values) {
  dataset<float>(name, {values.data, static_cast<std::size_t>(values.rows * values.columns)},
                 {values.rows, values.columns});
}

void Hdf5Writer::strings(const std::string& name, std::span<const std::string> values) {
  std::size_t width = 1;
  for (const auto& value : values) width = std::max(width, value.size());
  std::string cells;
  cells.reserve(width * values.size());
  for (const auto& value : values) {
    if (value.find('\0') != value.npos)
      throw input_error("`{}` holds a zero byte, which a name cannot have",
                        value.substr(0, value.find('\0')));
    cells.append(value).append(width - value.size(), '\0');
  }
  write_whole({name, ElementType::string, {std::ssize(values)}, static_cast<std::int64_t>(width)},
              std::as_bytes(std::span(cells)));
}

void Hdf5Writer::variable_strings(const std::string& name, std::span<const std::string> values) {
  state_->check_name(name);
  std::vector<const char*> pointers;
  for (const auto& value : values) {
    if (value.find('\0') != value.npos)
      throw input_error("a text of `{}` holds a zero byte; remove it", name);
    pointers.push_back(value.c_str());
  }
  const fs::path& path = state_->path;
  const Handle type = hdf5::variable_string_type();
  const hsize_t count = values.size();
  const Handle space(checked(H5Screate_simple(1, &count, nullptr), path), H5Sclose);
  const Handle creation(checked(H5Pcreate(H5P_DATASET_CREATE), path), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  const Handle dataset(checked(H5Dcreate2(state_->file, name.c_str(), type, space, H5P_DEFAULT,
                                          creation, H5P_DEFAULT),
                               path),
                       H5Dclose);
  if (!pointers.empty())
    checked(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()), path);
}

void Hdf5Writer::attribute(const std::string& name, const std::string& value) {
  if (value.find('\0') != value.npos)
    throw internal_error("attribute `{}` holds a zero byte", name);
  const fs::path& path = state_->path;
  const Handle type = hdf5::variable_string_type();
  const Handle space(checked(H5Screate(H5S_SCALAR), path), H5Sclose);
  const Handle attribute(
      checked(H5Acreate2(state_->file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), path),
      H5Aclose);
  const char* pointer = value.c_str();
  checked(H5Awrite(attribute, type, &pointer), path);
}

std::vector<ArrayPlace> Hdf5Writer::release() {
  checked(state_->file.close() ? 0 : -1, state_->path);
  state_->copy_structure();
  // Ranks trust these offsets: they must be what a reader finds after reopening.
  const Handle access = State::structure_access();
  const Handle file(
      checked(H5Fopen(state_->structure_path().c_str(), H5F_ACC_RDONLY, access), state_->path),
      H5Fclose);
  for (const ArrayPlace& place : state_->places) {
    if (place.spec.bytes() == 0) continue;
    const Handle dataset(
        checked(H5Dopen2(file, place.spec.name.c_str(), H5P_DEFAULT), state_->path), H5Dclose);
    if (H5Dget_offset(dataset) != static_cast<haddr_t>(place.offset))
      throw internal_error("HDF5 moved dataset `{}`", place.spec.name);
  }
  return state_->places;
}

const fs::path& Hdf5Writer::temporary() const { return state_->temporary; }

void Hdf5Writer::commit() {
  release();
  std::vector<std::vector<std::uint64_t>> checksums;
  for (std::size_t i = 0; i < state_->places.size(); ++i) {
    const ArrayPlace& place = state_->places[i];
    if (!state_->checksums[i])
      state_->checksums[i] =
          block_checksums(state_->lock, place, 0, checksum_count(place.spec), state_->path);
    checksums.push_back(std::move(*state_->checksums[i]));
  }
  seal_hdf5(state_->temporary, state_->path, state_->places, checksums);
  state_->finished = true;
}

}  // namespace gpuhpc
