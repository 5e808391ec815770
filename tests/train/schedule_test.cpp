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
  for (int step = 0; step < 4; ++step)
    EXPECT_DOUBLE_EQ(learning_rate_multiplier(linear, step), rise[step]);
  for (int step = 4; step < 10; ++step)
    EXPECT_DOUBLE_EQ(learning_rate_multiplier(linear, step), 1 - (step - 4) / 6.0);
  EXPECT_DOUBLE_EQ(learning_rate_multiplier(linear, 10), 0);
  EXPECT_DOUBLE_EQ(learning_rate_multiplier(linear, 99), 0);
}

TEST(Schedule, CosineIsHalfWayInTheMiddle) {
  const Schedule cosine{12, 2, Decay::cosine};
  EXPECT_DOUBLE_EQ(learning_rate_multiplier(cosine, 2), 1);
  EXPECT_NEAR(learning_rate_multiplier(cosine, 7), .5, 1e-15);
  EXPECT_NEAR(learning_rate_multiplier(cosine, 12), 0, 1e-15);
}

TEST(Schedule, ConstantStaysAndNoWarmupStartsAtOne) {
  EXPECT_EQ(learning_rate_multiplier({10, 0, Decay::constant}, 0), 1);
  EXPECT_EQ(learning_rate_multiplier({10, 0, Decay::constant}, 1000), 1);
  EXPECT_EQ(learning_rate_multiplier({10, 0, Decay::linear}, 0), 1);
  EXPECT_EQ(learning_rate_multiplier({1, 1, Decay::linear}, 0), .5);
}

// Does not know the end: the rate after warm-up falls with the root of the step, and joins the rise
// without a jump.
TEST(Schedule, InverseSquareRoot) {
  const Schedule schedule{100, 9, Decay::inverse_sqrt};
  EXPECT_DOUBLE_EQ(learning_rate_multiplier(schedule, 8), .9);
  EXPECT_DOUBLE_EQ(learning_rate_multiplier(schedule, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate_multiplier(schedule, 39), .5);
  EXPECT_DOUBLE_EQ(learning_rate_multiplier(schedule, 999), .1);
}

TEST(RateRule, FollowsTheBatch) {
  EXPECT_DOUBLE_EQ(batch_factor(RateRule::none, 1024, 32), 1);
  EXPECT_DOUBLE_EQ(batch_factor(RateRule::linear, 1024, 32), 32);
  EXPECT_DOUBLE_EQ(batch_factor(RateRule::sqrt, 512, 32), 4);
  EXPECT_DOUBLE_EQ(batch_factor(RateRule::sqrt, 8, 32), .5);
  EXPECT_EQ(rate_rule("linear"), RateRule::linear);
  EXPECT_EQ(rate_rule("sqrt"), RateRule::sqrt);
  EXPECT_EQ(rate_rule("none"), RateRule::none);
}

// No batch is a step: one document more never lowers the rate, and raises it by no more than its
// share of the batch. The published batch has the published rate.
TEST(RateRule, IsContinuousAndMonotone) {
  for (const RateRule rule : {RateRule::none, RateRule::sqrt, RateRule::linear})
    for (const double base : {32., 48., 64.}) {
      EXPECT_DOUBLE_EQ(batch_factor(rule, base, base), 1);
      for (double batch = 1; batch < 4096; ++batch) {
        const double rise = batch_factor(rule, batch + 1, base) / batch_factor(rule, batch, base);
        ASSERT_GE(rise, 1) << name_of(rule) << " " << batch;
        ASSERT_LE(rise, (batch + 1) / batch * (1 + 1e-12)) << name_of(rule) << " " << batch;
      }
    }
}

}  // namespace
}  // namespace gpuhpc
