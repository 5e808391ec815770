#include <gpuhpc/device/work_clock.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace gpuhpc {
namespace {

TEST(WorkClock, TellsTheTimeBetweenAnyTwoMarks) {
  WorkClock clock(c10::kCPU);
  for (int round = 0; round < 2; ++round) {
    clock.restart();
    const auto start = std::chrono::steady_clock::now();
    const WorkClock::Mark first = clock.mark();
    std::this_thread::sleep_for(std::chrono::milliseconds(7));
    const WorkClock::Mark second = clock.mark();
    const WorkClock::Mark third = clock.mark();
    const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - start;
    EXPECT_GE(clock.between(first, second), .007);
    EXPECT_LE(clock.between(first, third), whole.count());
    EXPECT_NEAR(clock.between(first, second) + clock.between(second, third),
                clock.between(first, third), 1e-12);
  }
}

}  // namespace
}  // namespace gpuhpc
