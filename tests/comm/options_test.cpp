#include "gpuhpc/comm/options.hpp"

#include <gtest/gtest.h>

namespace gpuhpc {
namespace {

TEST(ParallelOptions, WordsBecomeKinds) {
  config::OptionSet set;
  ParallelOptions options;
  declare(set.section("parallel"), options);
  EXPECT_EQ(options.strategy_kind(), Strategy::ddp);
  EXPECT_FALSE(options.reduce_in_bfloat16());
  set.parse({}, {"--parallel.strategy", "zero1", "--parallel.reduce-type", "bf16", "--parallel.timeout", "5", "--parallel.overlap", "false"});
  EXPECT_EQ(options.strategy_kind(), Strategy::zero1);
  EXPECT_TRUE(options.reduce_in_bfloat16());
  EXPECT_EQ(options.timeout, 5);
  EXPECT_FALSE(options.overlap);
  set.set_default("parallel.bucket-bytes", "4096");
  EXPECT_EQ(options.bucket_bytes, 4096);
  EXPECT_ANY_THROW(set.parse({}, {"--parallel.timeout", "0"}));
}

}  // namespace
}  // namespace gpuhpc
