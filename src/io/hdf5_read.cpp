#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/hdf5.hpp"
#include "gpuhpc/io/mapped_file.hpp"
#include "hdf5_handles.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
using hdf5::Handle;
namespace {

constexpr std::size_t large_dataset_bytes = std::size_t{16} << 20;

struct Entry {
  ArrayPlace place;
  bool variable = false;
};

[[noreturn]] void damaged(const fs::path& path, const std::string& what) {
  throw input_error("{}: {}; make the file again", path.string(), what);
}

hid_t need(hid_t id, const fs::path& path) {
  if (id < 0) damaged(path, "the HDF5 structure cannot be read");
  return id;
}

Handle open_file(const fs::path& path) {
  hdf5::silence_library();
  const Handle access = hdf5::file_access();
  return {need(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), path), H5Fclose};
}

std::string read_attribute(hid_t file, hsize_t index, std::string& name, const fs::path& path) {
  const Handle attribute(
      need(H5Aopen_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, index, H5P_DEFAULT, H5P_DEFAULT),
           path),
      H5Aclose);
  name.resize(static_cast<std::size_t>(std::max<ssize_t>(0, H5Aget_name(attribute, 0, nullptr))));
  H5Aget_name(attribute, name.size() + 1, name.data());
  const Handle type = hdf5::variable_string_type();
  const Handle stored(need(H5Aget_type(attribute), path), H5Tclose);
  if (H5Tis_variable_str(stored) <= 0) damaged(path, "attribute `" + name + "` is no string");
  char* text = nullptr;
  if (H5Aread(attribute, type, &text) < 0) damaged(path, "attribute `" + name + "` cannot be read");
  std::string value = text == nullptr ? "" : text;
  H5free_memory(text);
  return value;
}

Entry read_entry(hid_t file, const std::string& name, std::int64_t file_bytes,
                 const fs::path& path) {
  const Handle dataset(need(H5Dopen2(file, name.c_str(), H5P_DEFAULT), path), H5Dclose);
  const Handle type(need(H5Dget_type(dataset), path), H5Tclose);
  const Handle space(need(H5Dget_space(dataset), path), H5Sclose);
  Entry entry;
  entry.place.spec.name = name;
  if (!hdf5::element_type(type, entry.place.spec.type, entry.place.spec.string_width))
    damaged(path, "dataset `" + name + "` has an unknown type");
  hsize_t dimensions[H5S_MAX_RANK] = {};
  const int rank = H5Sget_simple_extent_dims(space, dimensions, nullptr);
  if (rank < 1 || rank > 2)
    damaged(path, "dataset `" + name + "` has neither one nor two dimensions");
  std::int64_t elements = 1;
  for (int i = 0; i < rank; ++i) {
    if (dimensions[i] > (std::uint64_t{1} << 62) ||
        __builtin_mul_overflow(elements, static_cast<std::int64_t>(dimensions[i]), &elements)) {
      damaged(path, "dataset `" + name + "` has an impossible shape");
    }
    entry.place.spec.shape.push_back(static_cast<std::int64_t>(dimensions[i]));
  }
  entry.variable =
      entry.place.spec.type == ElementType::string && entry.place.spec.string_width == 0;
  if (entry.variable || elements == 0) return entry;
  std::int64_t bytes = 0;
  const haddr_t offset = H5Dget_offset(dataset);
  if (__builtin_mul_overflow(elements, entry.place.spec.element_bytes(), &bytes) ||
      offset == HADDR_UNDEF || offset % 8 != 0 || offset > static_cast<std::uint64_t>(file_bytes) ||
      bytes > file_bytes - static_cast<std::int64_t>(offset) ||
      H5Dget_storage_size(dataset) != static_cast<hsize_t>(bytes)) {
    damaged(path, "dataset `" + name + "` lies outside the file or is not stored in one piece");
  }
  entry.place.offset = static_cast<std::int64_t>(offset);
  return entry;
}

}  // namespace

struct Hdf5File::State {
  MappedFile file;
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> attributes;

  explicit State(const fs::path& path) : file(path) {
    const hdf5::UserBlock block = hdf5::decode(file.bytes(), path);
    if (hdf5::structure_checksum(file.bytes(), block.data) != block.structure_checksum)
      damaged(path, "its structure is damaged (checksum)");
    const Handle opened = open_file(path);
    read_structure(opened);
  }

  void read_structure(hid_t opened) {
    const fs::path& path = file.path();
    H5G_info_t group;
    if (H5Gget_info(opened, &group) < 0) damaged(path, "the HDF5 structure cannot be read");
    for (hsize_t i = 0; i < group.nlinks; ++i) {
      const ssize_t length =
          H5Lget_name_by_idx(opened, ".", H5_INDEX_NAME, H5_ITER_INC, i, nullptr, 0, H5P_DEFAULT);
      if (length < 0) damaged(path, "the HDF5 structure cannot be read");
      std::string name(static_cast<std::size_t>(length), '\0');
      H5Lget_name_by_idx(opened, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size() + 1,
                         H5P_DEFAULT);
      Entry entry = read_entry(opened, name, file.size(), path);
      entries.emplace(std::move(name), std::move(entry));
    }
    link_checksums();
    H5O_info_t root;
    if (H5Oget_info2(opened, &root, H5O_INFO_NUM_ATTRS) < 0)
      damaged(path, "the HDF5 structure cannot be read");
    for (hsize_t i = 0; i < root.num_attrs; ++i) {
      std::string name;
      const std::string value = read_attribute(opened, i, name, path);
      attributes[name] = value;
    }
  }

  // Gives every dataset the place of its checksums and hides those from names().
  void link_checksums() {
    for (auto& [name, entry] : entries) {
      if (name.ends_with(hdf5::checksum_suffix) || entry.variable || entry.place.spec.bytes() == 0)
        continue;
      const auto sums = entries.find(name + std::string(hdf5::checksum_suffix));
      if (sums == entries.end() || sums->second.place.spec.type != ElementType::uint64 ||
          sums->second.place.spec.shape !=
              std::vector<std::int64_t>{checksum_count(entry.place.spec)}) {
        damaged(file.path(), "dataset `" + name + "` has no checksums");
      }
      entry.place.checksum_offset = sums->second.place.offset;
    }
    std::erase_if(entries,
                  [](const auto& item) { return item.first.ends_with(hdf5::checksum_suffix); });
  }

  const Entry& at(const std::string& name) const {
    const auto found = entries.find(name);
    if (found == entries.end()) damaged(file.path(), "there is no dataset `" + name + "`");
    return found->second;
  }

  std::span<const std::byte> bytes(const ArrayPlace& place) const {
    return file.bytes().subspan(static_cast<std::size_t>(place.offset),
                                static_cast<std::size_t>(place.spec.bytes()));
  }
};

Hdf5File::Hdf5File(const fs::path& path, Verify verify_now)
    : state_(std::make_unique<State>(path)) {
  if (verify_now != Verify::all) return;
  for (const auto& [name, entry] : state_->entries) {
    if (!entry.variable) verify(name);
  }
}
Hdf5File::~Hdf5File() = default;
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File& Hdf5File::operator=(Hdf5File&&) noexcept = default;

void Hdf5File::verify(const std::string& name) const {
  const ArrayPlace& place = state_->at(name).place;
  const auto data = state_->bytes(place);
  const auto* sums =
      reinterpret_cast<const std::uint64_t*>(state_->file.bytes().data() + place.checksum_offset);
  for (std::int64_t i = 0; i < checksum_count(place.spec); ++i) {
    const auto at = static_cast<std::size_t>(i * checksum_block_bytes);
    const auto block =
        data.subspan(at, std::min<std::size_t>(checksum_block_bytes, data.size() - at));
    if (xxh3(block) != sums[i]) {
      const std::int64_t first = place.offset + i * checksum_block_bytes;
      damaged(path(),
              fmt::format("dataset `{}` is damaged between bytes {} and {} of the file (checksum)",
                          name, first, first + std::ssize(block)));
    }
    if (data.size() > large_dataset_bytes)
      state_->file.let_go(block);  // checking must not make the process as large as the file
  }
}

void Hdf5File::expect_random_reads() const { state_->file.expect_random_reads(); }

bool Hdf5File::has(const std::string& name) const { return state_->entries.contains(name); }

std::vector<std::string> Hdf5File::names() const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : state_->entries) all.push_back(name);
  return all;
}

const ArraySpec& Hdf5File::spec(const std::string& name) const {
  return state_->at(name).place.spec;
}

std::span<const std::byte> Hdf5File::raw(const std::string& name, ElementType type) const {
  const Entry& entry = state_->at(name);
  if (entry.variable || entry.place.spec.type != type) {
    damaged(path(), fmt::format("dataset `{}` holds {}, {} was expected", name,
                                hdf5::name_of(entry.place.spec.type), hdf5::name_of(type)));
  }
  return state_->bytes(entry.place);
}

void Hdf5File::expect(const std::string& name, const std::vector<std::int64_t>& shape) const {
  if (spec(name).shape != shape)
    damaged(path(), fmt::format("dataset `{}` is {}, {} was expected", name,
                                fmt::join(spec(name).shape, " x "), fmt::join(shape, " x ")));
}

std::pair<std::int64_t, std::int64_t> Hdf5File::two_dimensions(const std::string& name) const {
  const auto& shape = state_->at(name).place.spec.shape;
  if (shape.size() != 2) damaged(path(), "dataset `" + name + "` is no matrix");
  return {shape[0], shape[1]};
}

StringColumn Hdf5File::strings(const std::string& name) const {
  const auto bytes = raw(name, ElementType::string);
  const ArraySpec& spec = state_->at(name).place.spec;
  if (spec.shape.size() != 1) damaged(path(), "dataset `" + name + "` is not a list of strings");
  return {reinterpret_cast<const char*>(bytes.data()), spec.string_width, spec.shape[0]};
}

std::vector<std::string> Hdf5File::variable_strings(const std::string& name) const {
  const Entry& entry = state_->at(name);
  if (!entry.variable || entry.place.spec.shape.size() != 1)
    damaged(path(), "dataset `" + name + "` is not a list of texts");
  const Handle file = open_file(path());
  const Handle dataset(need(H5Dopen2(file, name.c_str(), H5P_DEFAULT), path()), H5Dclose);
  const Handle type = hdf5::variable_string_type();
  std::vector<char*> pointers(static_cast<std::size_t>(entry.place.spec.shape[0]));
  if (pointers.empty()) return {};
  if (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) < 0)
    damaged(path(), "dataset `" + name + "` cannot be read");
  std::vector<std::string> texts;
  for (char* pointer : pointers) {
    texts.emplace_back(pointer == nullptr ? "" : pointer);
    H5free_memory(pointer);
  }
  return texts;
}

std::string Hdf5File::attribute(const std::string& name) const {
  const auto found = state_->attributes.find(name);
  if (found == state_->attributes.end()) damaged(path(), "there is no attribute `" + name + "`");
  return found->second;
}

const std::map<std::string, std::string>& Hdf5File::attributes() const {
  return state_->attributes;
}
const fs::path& Hdf5File::path() const { return state_->file.path(); }

}  // namespace gpuhpc
