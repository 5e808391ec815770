// Dropout outside the layers' kernels.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <gpuhpc/nn/ops.hpp>

namespace gpuhpc {
namespace {

class SeededDropout : public testing::TestWithParam<at::ScalarType> {};

// Of 211 x 997 elements the share that is dropped, of rows, of columns and of neighbours of dropped
// ones, is the rate within five standard deviations.
TEST_P(SeededDropout, DropsTheRatesShareAnywhereAndScalesTheRest) {
  const at::Tensor x = at::ones({211, 997}, at::TensorOptions().dtype(GetParam()));
  const at::Tensor y = seeded_dropout(x, .3, make_generator(at::kCPU, 5)),
                   gone = (y == 0).to(at::kDouble);
  const auto expect_share = [](const at::Tensor& share, double count) {
    EXPECT_LT((share - .3).abs().max().item<double>(), 5 * std::sqrt(.3 * .7 / count));
  };
  expect_share(gone.mean(), 211 * 997);
  expect_share(gone.mean(0), 211);
  expect_share(gone.mean(1), 997);
  const at::Tensor flat = gone.flatten();
  for (const std::int64_t apart : {1, 4, 32, 997})
    expect_share(flat.slice(0, apart).masked_select(flat.slice(0, 0, -apart) == 1).mean(),
                 .3 * 211 * 997);
  const at::Tensor kept = y.masked_select(y != 0).to(at::kDouble);
  EXPECT_LT((kept - 1 / .7).abs().max().item<double>(), GetParam() == at::kFloat ? 1e-4 : 1e-2);
  EXPECT_FALSE(at::equal(y, seeded_dropout(x, .3, make_generator(at::kCPU, 6))));
}

TEST_P(SeededDropout, GradientDropsWhatWasDropped) {
  // None so small that it is 0 whether it is dropped or not.
  at::Tensor x = at::rand({37, 65}).add(.1).to(GetParam()).set_requires_grad(true);
  const at::Tensor y = seeded_dropout(x.t(), .3, make_generator(at::kCPU, 5));
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad() == 0, (y == 0).t()));
  EXPECT_TRUE(at::allclose((x * x.grad()).to(at::kFloat), y.t().to(at::kFloat), 1e-2));
}

TEST_P(SeededDropout, ThreadsAndBlocksDoNotMatter) {
  const at::Tensor x = at::randn({90'001}).to(GetParam());
  const int threads = at::get_num_threads();
  at::Generator first = make_generator(at::kCPU, 5), second = make_generator(at::kCPU, 5);
  at::set_num_threads(1);
  const at::Tensor alone = seeded_dropout(x, .3, first);
  at::set_num_threads(3);
  const at::Tensor shared = seeded_dropout(x, .3, second);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone, shared));
  EXPECT_TRUE(at::equal(alone.slice(0, 0, 5000),
                        seeded_dropout(x.slice(0, 0, 5000), .3, make_generator(at::kCPU, 5))));
  EXPECT_FALSE(at::equal(shared, seeded_dropout(x, .3, second)));  // the next draw is another
}

INSTANTIATE_TEST_SUITE_P(Types, SeededDropout,
                         testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& i) { return std::string(at::toString(i.param)); });

}  // namespace
}  // namespace gpuhpc
