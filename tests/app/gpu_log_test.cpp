#include "gpuhpc/app/gpu_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <latch>
#include <sstream>

#include "../io/scratch_folder.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

int start_or_end() { return 0; }
int handle(const char* bus, void** device) {
  static int gpu;
  return *device = &gpu, std::string_view(bus) == "0000:3b:00.0" ? 0 : 1;
}
int rates(void*, unsigned* percent) { return percent[0] = 87, percent[1] = 12, 0; }
void* nvml(const char* name) {
  const std::string_view asked = name;
  if (asked == "nvmlDeviceGetUtilizationRates") return reinterpret_cast<void*>(&rates);
  if (asked == "nvmlDeviceGetHandleByPciBusId_v2") return reinterpret_cast<void*>(&handle);
  return reinterpret_cast<void*>(&start_or_end);
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  LineReader reader(path);
  for (std::string line; reader.next(line);) lines.push_back(line);
  return lines;
}

TEST(GpuLog, HasALineAPeriodAndKeepsThoseOfAnEarlierStart) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder / "gpu/training/rank-00003.csv";
  for (const char* bus : {"0000:3b:00.0", "0000:af:00.0"}) {  // nothing is known of the second
    std::latch three(3);
    int asked = 0;
    const auto memory = [&] {
      if (++asked <= 3) three.count_down();
      return std::int64_t{1} << 40;
    };
    const GpuLog log(path, {bus, memory, nvml}, std::make_shared<spdlog::logger>("test"),
                     std::chrono::milliseconds(5));
    three.wait();
  }
  const std::vector<std::string> lines = lines_of(path);
  ASSERT_GE(lines.size(), 7u);
  EXPECT_EQ(lines.front(), "time,utilisation_percent,memory_bytes");
  EXPECT_THAT(lines[1], MatchesRegex("[0-9]+\\.[0-9],87,1099511627776"));
  EXPECT_THAT(lines.back(), MatchesRegex("[0-9]+\\.[0-9],,1099511627776"));
}

TEST(GpuLog, LivesOnWhereItCannotWrite) {
  const ScratchFolder folder;
  write_text_file(folder / "gpu", "a file where the folder should be");
  std::ostringstream said;
  {
    const GpuLog log(folder / "gpu/rank-00000.csv", {"", [] { return 0; }, nvml},
                     std::make_shared<spdlog::logger>(
                         "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(said)));
  }
  EXPECT_THAT(said.str(), HasSubstr("rank-00000.csv"));
}

}  // namespace
}  // namespace gpuhpc
