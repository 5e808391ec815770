#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/log.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/base/system_error.hpp"

namespace gpuhpc {
namespace {

TEST(RandomStream, KnownAnswerOfPhilox) {
  // Salmon et al.'s test vector for Philox 4x32-10, counter and key zero: 6627e8d5 e169c58d
  // bc57ac4c 9b00dbd8.
  RandomStream stream(0, 0);
  EXPECT_EQ(stream.next(), 0xe169c58d6627e8d5u);
  EXPECT_EQ(stream.next(), 0x9b00dbd8bc57ac4cu);
}
TEST(RandomStream, StreamsAndSeedsDiffer) {
  EXPECT_NE(RandomStream(1, 0).next(), RandomStream(2, 0).next());
  EXPECT_NE(RandomStream(1, 0).next(), RandomStream(1, 1).next());
}
TEST(RandomStream, BelowIsInRangeAndCoversIt) {
  RandomStream stream(7, 7);
  std::vector<int> seen(5);
  for (int i = 0; i < 500; ++i) ++seen[stream.below(5)];
  for (const int count : seen) EXPECT_GT(count, 60);
}
TEST(RandomStream, ShuffleIsAPermutation) {
  std::vector<int> items(100);
  std::iota(items.begin(), items.end(), 0);
  auto shuffled = items;
  RandomStream(3, 1).shuffle(shuffled);
  EXPECT_NE(shuffled, items);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, items);
}

TEST(Blocks, EveryBlockHasOneOwnerOnAnyRankCount) {
  for (const int size : {1, 2, 3, 4, 7}) {
    std::int64_t next = 0;
    for (int rank = 0; rank < size; ++rank) {
      const Range range = items_of_rank(1003, 10, rank, size);
      EXPECT_EQ(range.first, next);
      EXPECT_TRUE(range.last % 10 == 0 || range.last == 1003);
      next = range.last;
    }
    EXPECT_EQ(next, 1003);
  }
  EXPECT_EQ(items_of_rank(0, 10, 0, 2).size(), 0);
}

TEST(ParallelFor, DoesEachPieceOnceAndThrowsTheFirstError) {
  std::vector<std::atomic<int>> hits(100);
  parallel_for(0, 100, 3, [&](std::int64_t i, int thread) {
    EXPECT_LT(thread, 3);
    ++hits[static_cast<std::size_t>(i)];
  });
  for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
  EXPECT_THROW(parallel_for(0, 10, 2,
                            [](std::int64_t i, int) {
                              if (i == 4) throw input_error("bad");
                            }),
               Error);
  parallel_for(5, 5, 2, [](std::int64_t, int) { FAIL(); });
}

TEST(Log, FilesCarryTheRank) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("gpuhpc-log-" + std::to_string(::getpid()));
  Log log = make_console_log(3);
  add_file_log(log, folder, 3);
  log->info("hello");
  std::ifstream file(folder / "rank-00003.log");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("rank=3 info hello"), std::string::npos);
  std::filesystem::remove_all(folder);
  try {
    add_file_log(log, "/proc/no-such-folder", 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::io);
  }
}

TEST(ErrorOf, FileCallsOfTheStandardLibraryNameTheFileAndTheCure) {
  try {
    std::filesystem::create_directory("/proc/nowhere/x");
    FAIL();
  } catch (const std::exception& e) {
    const Error error = error_of(e);
    EXPECT_EQ(error.code(), ExitCode::io);
    EXPECT_STREQ(error.what(),
                 "cannot use /proc/nowhere/x: no such file or folder; check the path");
  }
  EXPECT_EQ(error_of(std::system_error(ENOSPC, std::generic_category(), "print")).code(),
            ExitCode::io);
  EXPECT_EQ(error_of(std::logic_error("x")).code(), ExitCode::internal);
  const Error mine = error_of(usage_error("y"));
  EXPECT_EQ(mine.code(), ExitCode::usage);
}

// pthread_create(3): EAGAIN where a limit on the number of threads is reached.
TEST(ErrorOf, AThreadThatCannotBeCreatedIsNoQuestionOfTheDisk) {
  const Error error = error_of(std::system_error(EAGAIN, std::system_category()));
  EXPECT_EQ(error.code(), ExitCode::configuration);
  EXPECT_EQ(std::string(error.what()),
            "cannot start another thread (Resource temporarily unavailable); raise `ulimit -u` or "
            "the cgroup's pids limit, or lower --device.threads");
}

TEST(Progress, DurationsReadWell) {
  EXPECT_EQ(format_duration(0.2), "0:00");
  EXPECT_EQ(format_duration(65), "1:05");
  EXPECT_EQ(format_duration(7384), "2:03:04");
}

}  // namespace
}  // namespace gpuhpc
