// Runs GoogleTest on every rank; any rank's failure fails the launch.
#include <gtest/gtest.h>

#include "gpuhpc/comm/mpi.hpp"

int main(int argc, char** argv) {
  gpuhpc::MpiSession mpi;
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  return gpuhpc::MpiSession::world()->all_reduce_value<std::int32_t>(failed, gpuhpc::Reduce::max);
}
