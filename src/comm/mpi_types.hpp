#pragma once
// Our types and reductions as MPI's.
#include <mpi.h>

#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

// Throws peer for anything but MPI_SUCCESS.
void check_mpi(int code, const char* what);

MPI_Datatype mpi_type(DataType type);

// MPI has no 16-bit floats: operations of our own that add in float32. And none that adds in a fixed order: Open MPI reduces with an
// operation that is said not to commute over the binomial tree of the ranks, which is tree_sum's. One set a communicator.
class MpiOperations {
 public:
  MpiOperations();
  ~MpiOperations();
  MpiOperations(const MpiOperations&) = delete;
  MpiOperations& operator=(const MpiOperations&) = delete;
  MPI_Op operator()(Reduce reduce, DataType type) const;

 private:
  MPI_Op own_[2][3];  // (bfloat16 or float16, reduction)
  MPI_Op tree_[4];    // bfloat16, float16, float32, float64
};

}  // namespace gpuhpc
