#include "mpi_types.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/reduce.hpp"

namespace gpuhpc {

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ExitCode::peer, fmt::format("{} failed: {}", what, text));
}

MPI_Datatype mpi_type(DataType type) {
  switch (type) {
    case DataType::float32: return MPI_FLOAT;
    case DataType::float64: return MPI_DOUBLE;
    case DataType::int32: return MPI_INT32_T;
    case DataType::int64: return MPI_INT64_T;
    case DataType::uint8: return MPI_UINT8_T;
    case DataType::bfloat16:
    case DataType::float16: return MPI_UINT16_T;
  }
  throw internal_error("unknown wire type");
}

namespace {

template <DataType type, Reduce reduce>
void combine(void* in, void* in_and_out, int* count, MPI_Datatype*) {
  const void* const rows[] = {in_and_out, in};
  reduce_rows(rows, in_and_out, *count, type, reduce);
}

template <DataType type>
void make_operations(MPI_Op* operations) {
  constexpr int commutes = 1;
  check_mpi(MPI_Op_create(combine<type, Reduce::sum>, commutes, &operations[0]), "MPI_Op_create");
  check_mpi(MPI_Op_create(combine<type, Reduce::max>, commutes, &operations[1]), "MPI_Op_create");
  check_mpi(MPI_Op_create(combine<type, Reduce::min>, commutes, &operations[2]), "MPI_Op_create");
}

}  // namespace

MpiOperations::MpiOperations() {
  make_operations<DataType::bfloat16>(own_[0]);
  make_operations<DataType::float16>(own_[1]);
  constexpr int commutes = 0;
  check_mpi(MPI_Op_create(combine<DataType::bfloat16, Reduce::sum>, commutes, &tree_[0]), "MPI_Op_create");
  check_mpi(MPI_Op_create(combine<DataType::float16, Reduce::sum>, commutes, &tree_[1]), "MPI_Op_create");
  check_mpi(MPI_Op_create(combine<DataType::float32, Reduce::sum>, commutes, &tree_[2]), "MPI_Op_create");
  check_mpi(MPI_Op_create(combine<DataType::float64, Reduce::sum>, commutes, &tree_[3]), "MPI_Op_create");
}

MpiOperations::~MpiOperations() {
  for (auto& operations : own_)
    for (MPI_Op& operation : operations) MPI_Op_free(&operation);
  for (MPI_Op& operation : tree_) MPI_Op_free(&operation);
}

MPI_Op MpiOperations::operator()(Reduce reduce, DataType type) const {
  if (reduce == Reduce::tree_sum) {
    switch (type) {
      case DataType::bfloat16: return tree_[0];
      case DataType::float16: return tree_[1];
      case DataType::float32: return tree_[2];
      case DataType::float64: return tree_[3];
      default: return MPI_SUM;  // whole numbers add up alike in any order
    }
  }
  if (type == DataType::bfloat16) return own_[0][static_cast<int>(reduce)];
  if (type == DataType::float16) return own_[1][static_cast<int>(reduce)];
  return reduce == Reduce::sum ? MPI_SUM : reduce == Reduce::max ? MPI_MAX : MPI_MIN;
}

}  // namespace gpuhpc
