#include "gpuhpc/nn/losses.hpp"

#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace gpuhpc {
namespace {

std::vector<float> values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

TEST(Losses, AreSumsOverDocuments) {
  const at::Tensor logits = at::zeros({4, 3}), ones = logits.add(1);
  EXPECT_NEAR(soft_target_cross_entropy(logits, ones.div(3)).item<double>(), 4 * std::log(3.0),
              1e-5);
  EXPECT_NEAR(masked_binary_cross_entropy(logits, logits, ones).item<double>(), 12 * std::log(2.0),
              1e-5);
  EXPECT_NEAR(masked_binary_cross_entropy(logits, ones, ones, 10).item<double>(),
              120 * std::log(2.0), 1e-3);
}

// The definitions, number by number.
TEST(Losses, LeaveOutWhatIsMaskedAndWeighDocuments) {
  const std::vector<std::vector<double>> logits = {{.3, -1.2, 2}, {-.7, .9, .1}},
                                         targets = {{1, 0, 0}, {0, .4, 1}},
                                         mask = {{1, 0, 1}, {1, 1, 0}};
  const std::vector<double> weights = {.3, 1.7};
  constexpr double positive = 2.5;
  double binary = 0, soft = 0;
  for (std::size_t d = 0; d < 2; ++d) {
    double sum = 0;
    for (const double logit : logits[d]) sum += std::exp(logit);
    for (std::size_t c = 0; c < 3; ++c) {
      const double p = 1 / (1 + std::exp(-logits[d][c])), t = targets[d][c];
      binary -= weights[d] * mask[d][c] * (positive * t * std::log(p) + (1 - t) * std::log(1 - p));
      soft -= weights[d] * t * (logits[d][c] - std::log(sum));
    }
  }
  const auto tensor = [](const std::vector<std::vector<double>>& rows) {
    std::vector<at::Tensor> tensors;
    for (const auto& row : rows) tensors.push_back(at::tensor(row, at::kFloat));
    return at::stack(tensors);
  };
  const at::Tensor of_documents = at::tensor(weights, at::kFloat);
  EXPECT_NEAR(masked_binary_cross_entropy(tensor(logits), tensor(targets), tensor(mask), positive,
                                          of_documents)
                  .item<double>(),
              binary, 1e-5);
  EXPECT_NEAR(
      soft_target_cross_entropy(tensor(logits), tensor(targets), of_documents).item<double>(), soft,
      1e-5);
}

TEST(Losses, StayFiniteAtExtremeLogits) {
  const at::Tensor high = at::zeros({2, 3}).add(300), ones = at::zeros({2, 3}).add(1);
  EXPECT_NEAR(masked_binary_cross_entropy(high, ones.sub(1), ones).item<double>(), 6 * 300, 1e-3);
  EXPECT_NEAR(soft_target_cross_entropy(high, ones.div(3)).item<double>(), 2 * std::log(3.0), 1e-4);
}

TEST(Gather, TakesRowsOfDenseAndSparseMatricesInTheGivenOrder) {
  Matrix dense(3, 2);
  dense.values = {0, 1, 10, 11, 20, 21};
  const std::vector<std::int64_t> documents{2, 0, 2};
  EXPECT_EQ(values(gather_rows(dense.view(), documents)),
            (std::vector<float>{20, 21, 0, 1, 20, 21}));
  SparseMatrix sparse;
  sparse.columns_count = 4;
  sparse.offsets = {0, 2, 2, 3};
  sparse.columns = {1, 3, 0};
  sparse.values = {.5F, .25F, 9};
  EXPECT_EQ(values(gather_rows(sparse, documents)),
            (std::vector<float>{9, 0, 0, 0, 0, .5F, 0, .25F, 9, 0, 0, 0}));
  EXPECT_EQ(values(gather_values(std::vector<float>{5, 6, 7}, documents)),
            (std::vector<float>{7, 5, 7}));
}

TEST(Gather, PositivesCountEvenWhenTheyAreDescendantsOfOthers) {
  MultiLabelTargets labels;
  labels.positives.append(std::vector<std::int32_t>{0, 2});
  labels.ignored.append(
      std::vector<std::int32_t>{2, 3});  // 2 descends from 0 and is positive itself
  labels.positives.append(std::vector<std::int32_t>{});
  labels.ignored.append(std::vector<std::int32_t>{});
  const MultiLabelBatch batch = gather_labels(labels, 5, std::vector<std::int64_t>{1, 0});
  EXPECT_EQ(values(batch.targets), (std::vector<float>{0, 0, 0, 0, 0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(values(batch.mask), (std::vector<float>{1, 1, 1, 1, 1, 1, 1, 1, 0, 1}));
}

TEST(AugmentedWeight, BalancesRealAndGenerated) {
  EXPECT_EQ(augmented_weight(300, 100), 3);
  EXPECT_EQ(augmented_weight(300, 0), 0);
}

}  // namespace
}  // namespace gpuhpc
