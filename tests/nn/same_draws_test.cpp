// LibTorch's own generator begins anywhere: here it begins every test at one place, so that a test
// draws the same numbers in each run, alone and in any order.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "gpuhpc/nn/ops.hpp"

namespace gpuhpc {
namespace {

class SameDraws : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { at::manual_seed(11); }
};
const bool listens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SameDraws);
  return true;
}();

TEST(SameDraws, AreThoseOfOneSeed) {
  EXPECT_TRUE(listens);
  EXPECT_TRUE(at::equal(at::randn({5}), at::randn({5}, make_generator(at::kCPU, 11))));
}

}  // namespace
}  // namespace gpuhpc
