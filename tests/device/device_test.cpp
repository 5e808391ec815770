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
TEST(ChooseDevice, IdsNameTheGpusToUse) {
  DeviceOptions options;
  options.ids = "5,2,7";
  EXPECT_EQ(usable_gpus(options, 8), (std::vector{5, 2, 7}));
  EXPECT_EQ(choose_device(options, {8, 64}, 1, 3).index, 2);
  EXPECT_EQ(usable_gpus({}, 3), (std::vector{0, 1, 2}));
  EXPECT_TRUE(usable_gpus({"cpu"}, 3).empty());
  const auto refusal = [](const std::string& ids, const std::string& kind,
                          int visible) -> std::string {
    DeviceOptions given{kind};
    given.ids = ids;
    try {
      return "nothing thrown: " + std::to_string(usable_gpus(given, visible).size());
    } catch (const Error& e) {
      return std::to_string(static_cast<int>(e.code())) + ": " + e.what();
    }
  };
  EXPECT_EQ(refusal("0", "cpu", 2),
            "2: --device.ids 0 names GPUs, but --device.kind is cpu; leave one of them out");
  for (const char* ids : {"0,0", "0,,1", "-1", "1.5", "all"})
    EXPECT_EQ(refusal(ids, "auto", 2), "2: --device.ids " + std::string(ids) +
                                           ": different numbers are expected, such as 0,2");
  EXPECT_EQ(refusal("0,2", "auto", 2),
            "78: --device.ids 0,2: there is no GPU 2; visible are 2, numbered from 0 (nvidia-smi, "
            "CUDA_VISIBLE_DEVICES)");
  options.ids = "1,3";
  EXPECT_THROW(choose_device(options, {4, 64}, 2, 3), Error) << "three ranks, two GPUs";
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
// Of glibc's allocator, not of a sanitizer's.
TEST(PeakMemory, StartsAgainWithoutWhatIsFree) {
  constexpr std::size_t block = 100'000, count = 1'000;
  std::vector<std::vector<char>> blocks(count, std::vector<char>(block, 'x'));
  const std::vector<char> behind(block, 'x');
  const std::int64_t held = resident_memory();
  EXPECT_GE(peak_memory(), held);
  blocks.clear();
  reset_peak_memory();
  EXPECT_LT(resident_memory(), held - static_cast<std::int64_t>(block * count * 9 / 10));
  EXPECT_LT(peak_memory(), held);
}

}  // namespace
}  // namespace gpuhpc
