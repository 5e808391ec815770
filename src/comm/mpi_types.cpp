#include "mpi_types.hpp"

#include "gpuhpc/base/error.hpp"

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
    case DataType::float32:
      return MPI_FLOAT;
    case DataType::float64:
      return MPI_DOUBLE;
    case DataType::int32:
      return MPI_INT32_T;
    case DataType::int64:
      return MPI_INT64_T;
    case DataType::uint8:
      return MPI_UINT8_T;
    case DataType::bfloat16:
    case DataType::float16:
      return MPI_UINT16_T;
  }
  throw internal_error("unknown wire type");
}

}  // namespace gpuhpc
