// What is measured around a training.
#include "gpuhpc/pipelines/fine_tuning.hpp"

#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {
namespace {

// Item i has i^2 + 1 words, each with a loss of 1 / (i + 1).
class Squares final : public Task {
 public:
  std::int64_t size() const override { return 70; }
  std::int64_t cost(std::int64_t item) const override { return item * item + 1; }
  LossSum loss(std::span<const std::int64_t> items, DropoutSeed seed) override {
    EXPECT_FALSE(seed);
    sizes.push_back(std::ssize(items));
    double sum = 0, count = 0;
    for (const std::int64_t item : items) {
      const auto words = static_cast<double>(cost(item));
      sum += words / static_cast<double>(item + 1), count += words;
    }
    return {at::scalar_tensor(sum, at::kDouble), count};
  }
  std::vector<std::int64_t> sizes;
};

TEST(MeanLoss, TakesTheEvaluationsBatchAndCountsWords) {
  const auto comm = make_single_communicator();
  std::vector<std::int64_t> items(70);
  std::iota(items.begin(), items.end(), 0);
  double sum = 0, count = 0;
  for (std::int64_t i = 0; i < 70; ++i) {
    sum += static_cast<double>(i * i + 1) / static_cast<double>(i + 1);
    count += static_cast<double>(i * i + 1);
  }
  for (const auto& [batch, sizes] : {std::pair{0, std::vector<std::int64_t>{32, 32, 6}},
                                     std::pair{25, std::vector<std::int64_t>{25, 25, 20}}}) {
    TrainOptions options;
    options.eval_batch = batch;
    Squares task;
    EXPECT_NEAR(mean_loss(task, items, options, *comm), sum / count, 1e-12);
    EXPECT_EQ(task.sizes, sizes);
  }
}

}  // namespace
}  // namespace gpuhpc
