#include "conformance.hpp"

namespace gpuhpc {
namespace {

Backend single() {
  return {"single", [](const auto& body) { body(*make_single_communicator()); }};
}

INSTANTIATE_TEST_SUITE_P(OneProcess, Conformance, testing::Values(single()), [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace gpuhpc
