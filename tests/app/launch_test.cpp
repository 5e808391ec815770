#include "gpuhpc/app/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/thread.hpp"
#include "gpuhpc/device/gpu.hpp"

namespace gpuhpc {
namespace {

using testing::HasSubstr;

std::string problem(void (*check)(const std::vector<RankPlace>&),
                    const std::vector<RankPlace>& ranks) {
  try {
    check(ranks);
  } catch (const Error& e) {
    return std::to_string(static_cast<int>(e.code())) + ": " + e.what();
  }
  return "";
}

TEST(CheckSameKind, AHostWithoutGpusIsNamed) {
  EXPECT_THAT(problem(check_same_kind, {{"a", "", 8}, {"a", "", 8}, {"b", "", 0}}),
              HasSubstr("78: rank 2 on b sees no GPU but rank 0 on a does"));
  EXPECT_EQ(problem(check_same_kind, {{"a", "", 0}, {"b", "", 0}}), "");
  EXPECT_EQ(problem(check_same_kind, {{"a", "", 8}, {"b", "", 1}}), "");
}
TEST(CheckGpusApart, TwoRanksOnOneGpuAreNamed) {
  EXPECT_THAT(problem(check_gpus_apart, {{"a", "01", 1}, {"b", "01", 1}, {"b", "01", 1}}),
              HasSubstr("78: ranks 1 and 2 on b drive the same GPU (01)"));
  EXPECT_EQ(problem(check_gpus_apart, {{"a", "01", 1}, {"a", "02", 1}, {"b", "01", 1}}), "");
  EXPECT_EQ(problem(check_gpus_apart, {{"a", "", 0}, {"a", "", 0}}), "") << "processors";
}
TEST(CheckGpusApart, SlicesOfOneGpuAreApart) {
  const GpuFacts one{"A100", "0000:3b:00.0", "aa", 1}, other{"A100", "0000:3b:00.0", "ab", 1};
  EXPECT_EQ(problem(check_gpus_apart, {{"a", one.identity(), 2}, {"a", other.identity(), 2}}), "");
  EXPECT_THAT(problem(check_gpus_apart, {{"a", one.identity(), 2}, {"a", one.identity(), 2}}),
              HasSubstr("drive the same GPU (0000:3b:00.0, aa)"));
}
TEST(HowToStop, IsSaidUnderMpirunUnlessItWaits) {
  std::map<std::string, std::string> variables;
  const auto advice = [&] {
    return how_to_stop([&](const char* name) {
      return variables.contains(name) ? variables.at(name).c_str() : nullptr;
    });
  };
  EXPECT_EQ(advice(), "");
  variables["OMPI_COMM_WORLD_SIZE"] = "2";
  EXPECT_THAT(advice(), HasSubstr("send mpirun a SIGUSR1"));
  variables["OMPI_MCA_odls_base_sigkill_timeout"] = "30";
  EXPECT_EQ(advice(), "");
}
TEST(ChooseDeviceTogether, RanksOfAHostShareItsCores) {
  const int cores = static_cast<int>(query_cores().count());
  run_thread_ranks(2, {}, [&](Communicator& comm) {
    EXPECT_EQ(choose_device_together(comm, {"cpu", 0}).threads, std::max(1, cores / 2));
  });
}

}  // namespace
}  // namespace gpuhpc
