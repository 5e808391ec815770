#include "gpuhpc/io/event_file.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <limits>

#include "event_reader.hpp"
#include "expect_error.hpp"
#include "scratch_folder.hpp"

namespace gpuhpc {
namespace {

TEST(EventFile, HoldsWhatWasWrittenInRecordsWithTheirChecksums) {
  ASSERT_EQ(crc32c("123456789"), 0xE3069283U);  // the check value of CRC-32C
  const ScratchFolder folder;
  const std::time_t now = std::time(nullptr);
  EventFile file(folder / "events", "node1", 1700000000.25);
  EXPECT_EQ(file.path().parent_path(), folder / "events");
  EXPECT_GE(file.path().filename(),
            fmt::format("events.out.tfevents.{}.node1.{}", now, ::getpid()));
  EXPECT_LE(file.path().filename(),
            fmt::format("events.out.tfevents.{}.node1.{}", now + 60, ::getpid()));
  const std::vector<Scalar> first = {{"train/loss", 2.5}, {"learning_rate/encoder.no-decay", 3e-5}};
  const std::vector<Scalar> second = {
      {"train/loss", std::nan("")},
      {std::string(300, 'x'), -std::numeric_limits<double>::infinity()}};
  file.write(1, 1700000001.5, first);
  ASSERT_EQ(read_events(file.path()).size(), 3U);  // while it is open, too
  file.write(std::int64_t{1} << 40, 1700000002, second);
  const auto events = read_events(file.path());
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1700000000.25);
  EXPECT_TRUE(events[1].session_start);
  EXPECT_EQ(events[2].step, 1);
  EXPECT_EQ(events[2].wall_time, 1700000001.5);
  EXPECT_EQ(events[2].scalars,
            (std::map<std::string, float>{{"train/loss", 2.5F},
                                          {"learning_rate/encoder.no-decay", 3e-5F}}));
  EXPECT_EQ(events[3].step, std::int64_t{1} << 40);
  EXPECT_TRUE(std::isnan(events[3].scalars.at("train/loss")));
  EXPECT_EQ(events[3].scalars.at(std::string(300, 'x')), -std::numeric_limits<float>::infinity());
}

TEST(EventFile, SaysWhyItCannotBeWritten) {
  EXPECT_THAT(error_of(ExitCode::io, [] { EventFile("/proc/nowhere", "host", 0); }),
              ::testing::HasSubstr("/proc/nowhere"));
}

}  // namespace
}  // namespace gpuhpc
