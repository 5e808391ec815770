#pragma once
// Our types and errors beside MPI's.
#include <mpi.h>

#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

// Throws peer for anything but MPI_SUCCESS.
void check_mpi(int code, const char* what);

MPI_Datatype mpi_type(DataType type);

}  // namespace gpuhpc
