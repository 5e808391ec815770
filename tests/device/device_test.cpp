#include "gpuhpc/device/device.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

// "1100": cores 0 and 1 of four.
CoreSet cores(const std::string& text) {
  CoreSet set;
  for (std::size_t i = 0; i < text.size(); ++i) set[i] = text[i] == '1';
  return set;
}

TEST(ShareOfCores, RanksThatMayRunAnywhereShareTheHost) {
  const std::vector<CoreSet> four(4, cores("1111111111111111")), three(3, cores("1111111"));
  EXPECT_EQ(share_of_cores(four[3], four), 4);
  EXPECT_EQ(share_of_cores(three[0], three), 2);
}
TEST(ShareOfCores, ABoundRankKeepsWhatItsLauncherGaveIt) {
  const std::vector<CoreSet> apart = {cores("11110000"), cores("00001111")},
                             overlapping = {cores("111"), cores("011")};
  EXPECT_EQ(share_of_cores(apart[1], apart), 4);
  EXPECT_EQ(share_of_cores(overlapping[0], overlapping), 2);
  EXPECT_EQ(share_of_cores(overlapping[1], overlapping), 1);
}
TEST(ChooseDevice, OneThreadACoreOfItsShare) {
  EXPECT_EQ(choose_device({}, {0, 4}, 3, 4).threads, 4);
  EXPECT_EQ(choose_device({}, {0, 0}, 0, 4).threads, 1) << "more ranks than cores";
  EXPECT_EQ(choose_device({"auto", 7}, {0, 2}, 0, 4).threads, 7);
}
TEST(ChooseDevice, LocalRankPicksTheGpu) {
  EXPECT_TRUE(choose_device({}, {8, 64}, 5, 8).cuda);
  EXPECT_EQ(choose_device({}, {8, 64}, 5, 8).index, 5);
  EXPECT_EQ(choose_device({}, {1, 64}, 5, 8).index, 0) << "Slurm shows each task its own GPU only";
  EXPECT_EQ(choose_device({}, {8, 64}, 3, 4).index, 3);
  EXPECT_FALSE(choose_device({"cpu", 0}, {8, 64}, 0, 1).cuda);
}
TEST(ChooseDevice, ImpossibleLaunchesAreConfigurationErrors) {
  for (const auto& [options, facts, size] :
       {std::tuple{DeviceOptions{"cuda", 0}, DeviceFacts{0, 4}, 1},
        {DeviceOptions{}, DeviceFacts{2, 4}, 3}})
    try {
      choose_device(options, facts, 0, size);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::configuration);
    }
}
TEST(QueryCores, FindsAtLeastOneCore) {
  EXPECT_GE(query_cores().count(), 1u);
  EXPECT_GT(peak_memory(), 1 << 20);
}

}  // namespace
}  // namespace gpuhpc
