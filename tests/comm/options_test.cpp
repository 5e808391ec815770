#include "gpuhpc/comm/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

TEST(ParallelOptions, WordsBecomeKinds) {
  config::OptionSet set;
  ParallelOptions options;
  declare(set.section("parallel"), options);
  EXPECT_EQ(options.strategy_kind(), Strategy::ddp);
  EXPECT_FALSE(options.reduce_in_bfloat16());
  set.parse({}, {"--parallel.strategy", "zero1", "--parallel.reduce-type", "bf16",
                 "--parallel.timeout", "5", "--parallel.overlap", "false"});
  EXPECT_EQ(options.strategy_kind(), Strategy::zero1);
  EXPECT_TRUE(options.reduce_in_bfloat16());
  EXPECT_EQ(options.timeout, 5);
  EXPECT_FALSE(options.overlap);
  set.set_default("parallel.bucket-bytes", "4096");
  EXPECT_EQ(options.bucket_bytes, 4096);
  EXPECT_ANY_THROW(set.parse({}, {"--parallel.timeout", "0"}));
}

TEST(ParallelOptions, BucketsAreLargerBetweenGpus) {
  config::OptionSet set;
  ParallelOptions options;
  declare(set.section("parallel"), options);
  EXPECT_EQ(options.bucket(false), 4 << 20);
  EXPECT_EQ(options.bucket(true), 32 << 20);
  set.parse({}, {"--parallel.bucket-bytes", "1048576"});
  EXPECT_EQ(options.bucket(true), 1 << 20);
  EXPECT_THROW(set.parse({}, {"--parallel.bucket-bytes", "4"}), Error);  // MiB, somebody thought
  set.parse({}, {"--parallel.bucket-bytes", "auto"});
  EXPECT_EQ(options.bucket(true), 32 << 20);
}

TEST(ParallelOptions, ReplicasFollowTheDevicesOfTheProcess) {
  ParallelOptions options;
  EXPECT_EQ(options.replica_count(4, 8), 1);  // the launcher's ranks
  EXPECT_EQ(options.replica_count(1, 8), 8);  // a process alone takes all it sees
  options.strategy = "dp";
  EXPECT_EQ(options.replica_count(1, 8), 8);
  EXPECT_EQ(options.replica_count(1, 0), 1);  // processors
  options.replicas = 3;
  EXPECT_EQ(options.replica_count(1, 8), 3);
  EXPECT_EQ(options.replica_count(1, 0), 3);
}

TEST(ParallelOptions, ReplicasThatCannotBeAreRefusedWithTheCure) {
  const auto refusal = [](const std::string& strategy, std::int64_t replicas, int ranks,
                          int gpus) -> std::string {
    ParallelOptions options;
    options.strategy = strategy;
    options.replicas = replicas;
    try {
      return "nothing thrown: " + std::to_string(options.replica_count(ranks, gpus));
    } catch (const Error& e) {
      return std::to_string(static_cast<int>(e.code())) + ": " + e.what();
    }
  };
  EXPECT_THAT(refusal("dp", 0, 2, 0),
              testing::StartsWith("2: --parallel.strategy dp trains in one process, but 2 ranks "
                                  "were started; start one without mpirun"));
  EXPECT_THAT(refusal("zero1", 3, 2, 0),
              testing::StartsWith("2: --parallel.replicas 3 is for one process, but 2 ranks"));
  EXPECT_THAT(refusal("dp", 3, 1, 2),
              testing::StartsWith("78: --parallel.replicas 3 on 2 visible GPUs; "));
}

}  // namespace
}  // namespace gpuhpc
