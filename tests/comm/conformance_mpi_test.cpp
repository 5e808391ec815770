#include "conformance.hpp"

#include "gpuhpc/comm/mpi.hpp"

namespace gpuhpc {
namespace {

// The MPI session is main's; each test asks for its world anew.
Backend world() {
  return {"world", [](const auto& body) { body(*MpiSession::world()); }};
}

INSTANTIATE_TEST_SUITE_P(Mpi, Conformance, testing::Values(world()), [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace gpuhpc
