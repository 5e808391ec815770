#include "conformance.hpp"

#include "gpuhpc/comm/thread.hpp"

namespace gpuhpc {
namespace {

Backend single() {
  return {"single", [](const auto& body) { body(*make_single_communicator()); }};
}

Backend threads(int size) {
  return {"threads" + std::to_string(size),
          [size](const auto& body) { run_thread_ranks(size, {}, body); }};
}

INSTANTIATE_TEST_SUITE_P(OneProcess, Conformance,
                         testing::Values(single(), threads(1), threads(2), threads(3), threads(4)),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace gpuhpc
