#include "gpuhpc/train/loss_scaler.hpp"

#include <gtest/gtest.h>

namespace gpuhpc {
namespace {

TEST(LossScaler, HalvesWhenGradientsOverflowAndDoublesAfterManyGoodSteps) {
  LossScaler scaler({.scale = 1024, .growth_interval = 3, .dynamic = true});
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 512);
  scaler.update(true);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 512);
  EXPECT_EQ(scaler.good_steps(), 2);
  scaler.update(false);  // the count starts again
  EXPECT_EQ(scaler.scale(), 256);
  EXPECT_EQ(scaler.good_steps(), 0);
  for (int i = 0; i < 3; ++i) scaler.update(true);
  EXPECT_EQ(scaler.scale(), 512);
  EXPECT_EQ(scaler.good_steps(), 0);
}

TEST(LossScaler, StopsGrowing) {
  LossScaler scaler({.scale = 8, .largest = 16, .growth_interval = 1, .dynamic = true});
  for (int i = 0; i < 5; ++i) scaler.update(true);
  EXPECT_EQ(scaler.scale(), 16);
}

TEST(LossScaler, StaysWhereItIsNotDynamic) {
  LossScaler scaler;
  scaler.update(false);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 1);
  scaler.restore(4096, 7);  // of a checkpoint written under fp16
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScaler, GoesOnWhereItWas) {
  const LossScalerOptions options{.scale = 1024, .growth_interval = 3, .dynamic = true};
  LossScaler first(options), second(options);
  first.update(false);
  first.update(true);
  second.restore(first.scale(), first.good_steps());
  for (LossScaler* scaler : {&first, &second}) {
    scaler->update(true);
    scaler->update(true);
    EXPECT_EQ(scaler->scale(), 1024);
  }
}

}  // namespace
}  // namespace gpuhpc
