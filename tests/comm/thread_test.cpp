#include "gpuhpc/comm/thread.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"

namespace gpuhpc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string failure_of(int size, const std::function<void(Communicator&)>& body,
                       std::int64_t timeout = 600) {
  ParallelOptions options;
  options.timeout = timeout;
  try {
    run_thread_ranks(size, options, body);
  } catch (const Error& e) {
    return std::to_string(static_cast<int>(e.code())) + ": " + e.what();
  }
  return "nothing thrown";
}

TEST(ThreadRanks, DifferentCollectivesAreNamed) {
  const std::string sentence = failure_of(3, [](Communicator& comm) {
    float x = 1;
    if (comm.rank() == 2)
      comm.barrier();
    else
      comm.all_reduce(&x, 1, DataType::float32, Reduce::sum);
  });
  EXPECT_THAT(sentence, HasSubstr("79: the ranks went different ways: rank 0 on "));
  EXPECT_THAT(sentence, HasSubstr("calls all_reduce number 1 (1 float32, sum) but rank 2 on "));
  EXPECT_THAT(sentence, HasSubstr("calls barrier number 1;"));
}
TEST(ThreadRanks, TheFirstFailureIsThrownNotTheComplaintsOfTheOthers) {
  EXPECT_EQ(failure_of(4,
                       [](Communicator& comm) {
                         comm.barrier();
                         if (comm.rank() == 3) throw io_error("disk full");
                         comm.barrier();
                       }),
            "74: disk full");
}
TEST(ThreadRanks, ARankThatHasLeftIsNamed) {
  std::atomic<int> told = 0;
  run_thread_ranks(3, {}, [&](Communicator& comm) {
    if (comm.rank() == 1) return;
    try {
      comm.barrier();
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("rank 1 on "));
      EXPECT_THAT(e.what(), HasSubstr("has left"));
      ++told;
    }
  });
  EXPECT_EQ(told, 2);
}
TEST(ThreadRanks, ARankThatStaysAwayIsNamed) {
  std::atomic<bool> told = false;
  const std::string sentence = failure_of(
      2,
      [&](Communicator& comm) {
        comm.barrier();
        while (comm.rank() == 1 && !told) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        try {
          comm.all_reduce_value<std::int64_t>(1);
        } catch (const Error&) {
          told = true;
          throw;
        }
      },
      1);
  EXPECT_THAT(sentence, HasSubstr("79: rank 0 on "));
  EXPECT_THAT(sentence,
              HasSubstr("waited 1 s in all_reduce number 2 (1 int64, sum) for rank 1 on "));
  EXPECT_THAT(sentence, HasSubstr("alive but has not entered it (its last: barrier number 1)"));
}
// Limits of collectives are not limits of work: one second each.
TEST(ThreadRanks, WorkMayTakeLongerThanACollective) {
  std::atomic<int> done = 0;
  const auto work = [&](Communicator& comm) {
    run_long(comm, [&] {
      if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      ++done;
    });
  };
  EXPECT_EQ(failure_of(3, work, 1), "nothing thrown");
  EXPECT_EQ(done, 3);
  const auto failing = [&](Communicator& comm) {
    run_long(comm, [&] {
      if (comm.rank() == 1) throw io_error("full");
    });
  };
  EXPECT_THAT(failure_of(3, failing, 1), HasSubstr("74: full"));
}

TEST(ThreadRanksDeathTest, ARankThatNeverComesBackEndsTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(failure_of(
                  2,
                  [](Communicator& comm) {
                    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
                    comm.barrier();
                  },
                  1),
              testing::ExitedWithCode(79),
              "waited 1 s in barrier number 1 for rank 1 on .*1 ranks do not come back");
  EXPECT_EXIT(failure_of(
                  2,
                  [](Communicator& comm) {
                    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
                    throw io_error("disk full");
                  },
                  1),
              testing::ExitedWithCode(74), "disk full; 1 ranks do not come back");
}
TEST(ThreadRanks, StringsOfAllRanksComeInOrder) {
  run_thread_ranks(3, {}, [](Communicator& comm) {
    EXPECT_THAT(comm.all_gather_strings(std::string(static_cast<std::size_t>(comm.rank()), 'x')),
                ElementsAre("", "x", "xx"));
  });
}

}  // namespace
}  // namespace gpuhpc
