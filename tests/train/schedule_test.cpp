#include "gpuhpc/train/schedule.hpp"

#include <gtest/gtest.h>

namespace gpuhpc {
namespace {

TEST(Schedule, WarmupIsAShareOrANumberOfSteps) {
  EXPECT_EQ(warmup_steps(.1, 227), 23);
  EXPECT_EQ(warmup_steps(0, 100), 0);
  EXPECT_EQ(warmup_steps(1, 100), 1);
  EXPECT_EQ(warmup_steps(500, 100), 100);
}

TEST(Schedule, RisesThenFallsToZeroAtTheEnd) {
  const Schedule linear{10, 4, Decay::linear};
  const double rise[] = {.2, .4, .6, .8};
  for (int step = 0; step < 4; ++step) EXPECT_DOUBLE_EQ(rate_factor(linear, step), rise[step]);
  for (int step = 4; step < 10; ++step) EXPECT_DOUBLE_EQ(rate_factor(linear, step), 1 - (step - 4) / 6.0);
  EXPECT_DOUBLE_EQ(rate_factor(linear, 10), 0);
  EXPECT_DOUBLE_EQ(rate_factor(linear, 99), 0);
}

TEST(Schedule, CosineIsHalfWayInTheMiddle) {
  const Schedule cosine{12, 2, Decay::cosine};
  EXPECT_DOUBLE_EQ(rate_factor(cosine, 2), 1);
  EXPECT_NEAR(rate_factor(cosine, 7), .5, 1e-15);
  EXPECT_NEAR(rate_factor(cosine, 12), 0, 1e-15);
}

TEST(Schedule, ConstantStaysAndNoWarmupStartsAtOne) {
  EXPECT_EQ(rate_factor({10, 0, Decay::constant}, 0), 1);
  EXPECT_EQ(rate_factor({10, 0, Decay::constant}, 1000), 1);
  EXPECT_EQ(rate_factor({10, 0, Decay::linear}, 0), 1);
  EXPECT_EQ(rate_factor({1, 1, Decay::linear}, 0), .5);
}

}  // namespace
}  // namespace gpuhpc
