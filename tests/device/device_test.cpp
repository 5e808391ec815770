#include "gpuhpc/device/device.hpp"

#include <gtest/gtest.h>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

TEST(ChooseDevice, SharesCoresAmongTheRanksOfAHost) {
  EXPECT_EQ(choose_device({}, {0, 16}, 3, 4).threads, 4);
  EXPECT_EQ(choose_device({}, {0, 2}, 0, 4).threads, 1);
  EXPECT_EQ(choose_device({"auto", 7}, {0, 2}, 0, 4).threads, 7);
}
TEST(ChooseDevice, LocalRankPicksTheGpu) {
  EXPECT_TRUE(choose_device({}, {8, 64}, 5, 8).cuda);
  EXPECT_EQ(choose_device({}, {8, 64}, 5, 8).index, 5);
  EXPECT_EQ(choose_device({}, {1, 64}, 5, 8).index, 0);
  EXPECT_FALSE(choose_device({"cpu", 0}, {8, 64}, 0, 1).cuda);
}
TEST(ChooseDevice, ImpossibleLaunchesAreConfigurationErrors) {
  for (const auto& [options, facts, size] : {std::tuple{DeviceOptions{"cuda", 0}, DeviceFacts{0, 4}, 1}, {DeviceOptions{}, DeviceFacts{2, 4}, 3}})
    try {
      choose_device(options, facts, 0, size);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::configuration);
    }
}
TEST(QueryDevices, FindsAtLeastOneCore) {
  EXPECT_GE(query_devices().cores, 1);
  EXPECT_GT(peak_memory(), 1 << 20);
}

}  // namespace
}  // namespace gpuhpc
