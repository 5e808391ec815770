// Unit tests of the rooms that use the kernels. GPUHPC_TEST_ISA (scripts/levels.sh) is the highest
// instruction set that they may use.
#include <gtest/gtest.h>

#include <cstdlib>

#include "gpuhpc/kernels/isa.hpp"

int main(int argc, char** argv) {
  if (const char* level = std::getenv("GPUHPC_TEST_ISA"))
    gpuhpc::kernels::limit_isa(gpuhpc::kernels::parse_isa(level));
  testing::InitGoogleTest(&argc, argv);  // makes the tests of every level there is
  return RUN_ALL_TESTS();
}
