#pragma once
// Matrices and arrays of the stages in HDF5: written by one rank in one call, or by many ranks row
// by row, the bytes of the file being the same on any number of ranks.
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/io/hdf5.hpp"

namespace gpuhpc {

using ArrayView = std::variant<
    MatrixView, BasicMatrixView<const std::int32_t>, BasicMatrixView<const std::int64_t>,
    std::span<const float>, std::span<const double>, std::span<const std::int32_t>,
    std::span<const std::int64_t>, std::span<const std::uint8_t>, std::span<const std::string>>;
using NamedArrays = std::vector<std::pair<std::string, ArrayView>>;
using Attributes = std::map<std::string, std::string>;

// write_arrays(path, {{"embeddings", m.view()}, {"ids", std::span<const std::string>(ids)}},
// {{"encoder", "..."}}); From one rank (call it inside on_root).
void write_arrays(const std::filesystem::path& path, const NamedArrays& arrays,
                  const Attributes& attributes = {});
void write_matrix(const std::filesystem::path& path, MatrixView values,
                  const Attributes& attributes = {});  // dataset "values"
void write_sparse(const std::filesystem::path& path, const SparseMatrix& matrix,
                  const Attributes& attributes = {});
SparseMatrix read_sparse(
    const std::filesystem::path& path);  // structure checked: offsets ascend, columns in range

// A matrix mapped from a file of ours.
class MappedMatrix {
 public:
  explicit MappedMatrix(const std::filesystem::path& path, std::string name = "values")
      : file_(path), name_(std::move(name)) {
    view_ = file_.matrix(name_);
  }
  MatrixView view() const { return view_; }
  const Hdf5File& file() const { return file_; }

 private:
  Hdf5File file_;
  std::string name_;
  MatrixView view_;
};
Matrix read_matrix(const std::filesystem::path& path,
                   const std::string& name = "values");  // copied
// The same; input_error when it has another shape.
Matrix read_matrix(const std::filesystem::path& path, const std::string& name, std::int64_t rows,
                   std::int64_t columns);

// Many ranks fill one file on a shared file system. Constructor and commit() are collective and
// throw on all ranks alike.
class MatrixFileWriter {
 public:
  MatrixFileWriter(const std::filesystem::path& path, Communicator& comm,
                   const std::vector<ArraySpec>& arrays, const Attributes& attributes = {});
  ~MatrixFileWriter();  // without commit() root removes the temporary file
  MatrixFileWriter(const MatrixFileWriter&) = delete;
  MatrixFileWriter& operator=(const MatrixFileWriter&) = delete;

  // Any rank, any rows, no communication: rows [first_row, ..) of dataset `name`.
  template <typename T>
  void write_rows(const std::string& name, std::int64_t first_row, std::span<const T> values) {
    write_bytes(name, element_type_of<T>(), first_row, std::as_bytes(values));
  }
  void write_rows(const std::string& name, std::int64_t first_row, MatrixView values);
  void write_strings(const std::string& name, std::int64_t first_row,
                     std::span<const std::string> values);
  // Collective: every row must have been written by some rank.
  void commit();

 private:
  void write_bytes(const std::string& name, ElementType type, std::int64_t first_row,
                   std::span<const std::byte> bytes);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpuhpc
