#include "gpuhpc/io/matrix_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

struct ArrayWriter {
  Hdf5Writer& file;
  const std::string& name;
  template <typename T>
  void operator()(BasicMatrixView<const T> m) const {
    file.dataset<T>(name, {m.data, static_cast<std::size_t>(m.rows * m.columns)},
                    {m.rows, m.columns});
  }
  template <typename T>
  void operator()(std::span<const T> values) const {
    file.dataset<T>(name, values);
  }
  void operator()(std::span<const std::string> values) const { file.strings(name, values); }
};

}  // namespace

void write_arrays(const fs::path& path, const NamedArrays& arrays, const Attributes& attributes) {
  Hdf5Writer file(path);
  for (const auto& [name, value] : attributes) file.attribute(name, value);
  for (const auto& [name, array] : arrays) std::visit(ArrayWriter{file, name}, array);
  file.commit();
}

void write_matrix(const fs::path& path, MatrixView values, const Attributes& attributes) {
  write_arrays(path, {{"values", values}}, attributes);
}

void write_sparse(const fs::path& path, const SparseMatrix& matrix, const Attributes& attributes) {
  Attributes all = attributes;
  all["columns"] = std::to_string(matrix.columns_count);
  write_arrays(path,
               {{"offsets", std::span<const std::int64_t>(matrix.offsets)},
                {"columns", std::span<const std::int32_t>(matrix.columns)},
                {"values", std::span<const float>(matrix.values)}},
               all);
}

SparseMatrix read_sparse(const fs::path& path) {
  const Hdf5File file(path);
  const auto offsets = file.dataset<std::int64_t>("offsets");
  const auto columns = file.dataset<std::int32_t>("columns");
  const auto values = file.dataset<float>("values");
  SparseMatrix matrix;
  matrix.columns_count = std::strtoll(file.attribute("columns").c_str(), nullptr, 10);
  bool sound = !offsets.empty() && offsets.front() == 0 && offsets.back() == std::ssize(columns) &&
               values.size() == columns.size() && std::is_sorted(offsets.begin(), offsets.end());
  for (const auto column : columns) sound = sound && column >= 0 && column < matrix.columns_count;
  if (!sound)
    throw input_error("{}: offsets, columns and values do not fit each other; make the file again",
                      path.string());
  matrix.offsets.assign(offsets.begin(), offsets.end());
  matrix.columns.assign(columns.begin(), columns.end());
  matrix.values.assign(values.begin(), values.end());
  return matrix;
}

Matrix read_matrix(const fs::path& path, const std::string& name) {
  const Hdf5File file(path);
  return Matrix(file.matrix(name));
}

Matrix read_matrix(const fs::path& path, const std::string& name, std::int64_t rows,
                   std::int64_t columns) {
  Hdf5File(path, Hdf5File::Verify::structure).expect(name, {rows, columns});
  return read_matrix(path, name);
}

struct MatrixFileWriter::State {
  State(const fs::path& file, Communicator& world) : path(file), comm(world) {}
  ~State() {
    if (descriptor >= 0) ::close(descriptor);
  }

  void open(int mode) {
    if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
    descriptor = ::open(temporary.c_str(), mode | O_CLOEXEC);
    if (descriptor < 0) throw system_error("open", temporary, errno);
  }
  const ArrayPlace& place(const std::string& name) const {
    for (const auto& candidate : places) {
      if (candidate.spec.name == name) return candidate;
    }
    throw internal_error("{} has no dataset `{}`", path.string(), name);
  }

  fs::path path, temporary;
  Communicator& comm;
  std::vector<ArrayPlace> places;      // the same on every rank
  std::unique_ptr<Hdf5Writer> writer;  // root: owns the temporary file
  int descriptor = -1;                 // every rank's own
};

MatrixFileWriter::MatrixFileWriter(const fs::path& path, Communicator& comm,
                                   const std::vector<ArraySpec>& arrays,
                                   const Attributes& attributes)
    : state_(std::make_unique<State>(path, comm)) {
  State& state = *state_;
  state.temporary = path;
  state.temporary += ".tmp";
  on_root(comm, [&] {
    state.writer = std::make_unique<Hdf5Writer>(path);
    for (const auto& [name, value] : attributes) state.writer->attribute(name, value);
    for (const auto& spec : arrays) state.writer->reserve(spec);
    state.places = state.writer->release();
  });
  std::vector<std::int64_t> offsets;  // data and checksum offset of each dataset
  if (!comm.is_root()) {
    for (const auto& spec : arrays) state.places.push_back({spec, 0, 0});
  }
  for (const auto& place : state.places)
    offsets.insert(offsets.end(), {place.offset, place.checksum_offset});
  comm.broadcast(std::span<std::int64_t>(offsets));
  for (std::size_t i = 0; i < state.places.size(); ++i) {
    state.places[i].offset = offsets[2 * i];
    state.places[i].checksum_offset = offsets[2 * i + 1];
  }
  // For writing alone: a host that also reads would, on NFS, fetch the page in which its part ends,
  // and write it back whole over what another host has put there.
  run_collectively(comm, [&] { state.open(O_WRONLY); });
}

MatrixFileWriter::~MatrixFileWriter() = default;

void MatrixFileWriter::write_bytes(const std::string& name, ElementType type,
                                   std::int64_t first_row, std::span<const std::byte> bytes) {
  const ArrayPlace& place = state_->place(name);
  const std::int64_t row_bytes = place.spec.row_bytes();
  if (place.spec.type != type)
    throw internal_error("{}: dataset `{}` has another type", state_->path.string(), name);
  const std::int64_t at = first_row * row_bytes;
  if (first_row < 0 || at + std::ssize(bytes) > place.spec.bytes() ||
      (row_bytes > 0 && std::ssize(bytes) % row_bytes != 0)) {
    throw internal_error("{}: rows of `{}` do not fit its shape", state_->path.string(), name);
  }
  write_fully_at(state_->descriptor, bytes, place.offset + at, state_->path);
}

void MatrixFileWriter::write_rows(const std::string& name, std::int64_t first_row,
                                  MatrixView values) {
  write_bytes(name, ElementType::float32, first_row,
              std::as_bytes(
                  std::span(values.data, static_cast<std::size_t>(values.rows * values.columns))));
}

void MatrixFileWriter::write_strings(const std::string& name, std::int64_t first_row,
                                     std::span<const std::string> values) {
  const auto width = static_cast<std::size_t>(state_->place(name).spec.string_width);
  std::string cells;
  for (const auto& value : values) {
    if (value.size() > width || value.find('\0') != value.npos)
      throw internal_error("`{}` does not fit into dataset `{}`", value, name);
    cells.append(value).append(width - value.size(), '\0');
  }
  write_bytes(name, ElementType::string, first_row, std::as_bytes(std::span(cells)));
}

void MatrixFileWriter::commit() {
  State& state = *state_;
  Communicator& comm = state.comm;
  run_collectively(comm, [&] { sync_descriptor(state.descriptor, state.path); });
  comm.barrier();
  run_collectively(comm, [&] { state.open(O_RDONLY); });
  // Each rank reads back its share of the blocks, also rows that others wrote: the checksums are of
  // what the file holds.
  std::vector<std::vector<std::uint64_t>> checksums;
  for (const ArrayPlace& place : state.places) {
    const Range mine = blocks_of_rank(checksum_count(place.spec), comm.rank(), comm.size());
    std::vector<std::uint64_t> sums;
    run_collectively(comm, [&] {
      sums = block_checksums(state.descriptor, place, mine.first, mine.last, state.path);
    });
    std::vector<std::int64_t> wire(sums.begin(), sums.end());
    const auto all = comm.all_gather_v<std::int64_t>(wire);
    checksums.emplace_back(all.begin(), all.end());
  }
  on_root(comm, [&] { seal_hdf5(state.temporary, state.path, state.places, checksums); });
  ::close(std::exchange(state.descriptor, -1));
  state.writer.reset();
}

}  // namespace gpuhpc
