#include "conformance.hpp"

#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/comm/nccl.hpp"
#include "nccl_double.hpp"

namespace gpuhpc {
namespace {

// The MPI session is main's; each test asks for its world anew.
Backend world() {
  return {"world", [](const auto& body) { body(*MpiSession::world()); }};
}

// NCCL's table played over host memory: host buffers are its device memory.
Backend nccl() {
  return {"nccl",
          [](const auto& body) {
            const auto host = MpiSession::world(), inner = MpiSession::world();
            NcclDouble library(*inner);
            body(*make_nccl_communicator(*host, library.api()));
          },
          false};
}

INSTANTIATE_TEST_SUITE_P(Mpi, Conformance, testing::Values(world(), nccl()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace gpuhpc
