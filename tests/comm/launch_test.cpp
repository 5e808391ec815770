#include "gpuhpc/comm/mpi.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

std::string problem(const Variables& variables) {
  try {
    check_launch([&](const char* name) {
      return variables.contains(name) ? variables.at(name).c_str() : nullptr;
    });
  } catch (const Error& e) {
    return std::to_string(static_cast<int>(e.code())) + ": " + e.what();
  }
  return "";
}

// The variables that Slurm 22.05 and Open MPI 4.1 set.
const Variables kJob = {
    {"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
Variables with(Variables more) {
  more.insert(kJob.begin(), kJob.end());
  return more;
}

TEST(CheckLaunch, SeveralTasksWithoutMpiAreRefusedWithTheCure) {
  const std::string sentence =
      problem(with({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}}));
  EXPECT_THAT(sentence, HasSubstr("78: srun started 8 tasks without MPI"));
  EXPECT_THAT(sentence, HasSubstr("srun --mpi=pmix"));
}
TEST(CheckLaunch, AFolderThatMpiCannotUseIsNamed) {
  const auto rank = [](const std::string& folder) {
    return problem({{"PMIX_RANK", "0"}, {"TMPDIR", folder}});
  };
  EXPECT_THAT(rank("/proc/nowhere"), HasSubstr("78: TMPDIR is /proc/nowhere"));
  EXPECT_EQ(rank("/tmp"), "");
  EXPECT_EQ(problem({{"TMPDIR", "/proc/nowhere"}}), "") << "one process needs no MPI";
}
TEST(CheckLaunch, RankZeroWarnsOfNodesThatDoNotWaitForEachOther) {
  const auto warning = [](Variables variables) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(problem(with(std::move(variables))), "");
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warning({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_NODES", "2"}}),
              HasSubstr("export SLURM_PMIX_FENCE=ring"));
  EXPECT_THAT(
      warning({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_PMIX_FENCE", "tree"}}),
      HasSubstr("export SLURM_PMIX_FENCE=ring"));
  for (const Variables& quiet :
       {Variables{{"SLURM_PMIX_FENCE", "ring"}}, Variables{{"PMIX_RANK", "1"}},
        Variables{{"SLURM_STEP_NUM_NODES", "1"}}, Variables{{"OMPI_COMM_WORLD_SIZE", "4"}}}) {
    Variables variables = quiet;
    variables.insert({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_NODES", "2"}});
    EXPECT_EQ(warning(variables), "") << quiet.begin()->first;
  }
}
TEST(CheckLaunch, RightLaunchesPass) {
  EXPECT_EQ(problem({}), "") << "no Slurm";
  EXPECT_EQ(problem(kJob), "") << "a batch script's own process";
  EXPECT_EQ(problem(with({{"SLURM_STEP_NUM_TASKS", "1"}})), "") << "srun -n1";
  EXPECT_EQ(problem(with({{"SLURM_STEP_NUM_TASKS", "8"}, {"PMIX_RANK", "3"}})), "")
      << "srun --mpi=pmix";
  EXPECT_EQ(problem(with({{"SLURM_STEP_NUM_TASKS", "2"}, {"OMPI_COMM_WORLD_SIZE", "8"}})), "")
      << "mpirun, whose daemons on two nodes srun started";
}

}  // namespace
}  // namespace gpuhpc
