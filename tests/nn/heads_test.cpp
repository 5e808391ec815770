#include "gpuhpc/nn/heads.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpuhpc/nn/losses.hpp"

namespace gpuhpc {
namespace {

struct HeadFixture {
  nlohmann::json all = [] {
    std::ifstream file(GPUHPC_FIXTURES "/heads.json");
    return nlohmann::json::parse(file);
  }();
  std::int64_t size(const char* name) const { return all[name]; }
  std::vector<float> values(const char* head, const char* name) const { return all[head][name]; }
  Matrix matrix(const char* head, const char* name, std::int64_t rows, std::int64_t columns) const {
    Matrix result(rows, columns);
    result.values = values(head, name);
    return result;
  }
  at::Tensor tensor(const char* head, const char* name, std::vector<std::int64_t> shape) const {
    std::vector<float> numbers = values(head, name);
    return at::from_blob(numbers.data(), shape, at::TensorOptions().dtype(at::kFloat)).clone();
  }
};

float distance(const at::Tensor& a, const at::Tensor& b) {
  return a.detach().sub(b.detach()).abs().max().item<float>();
}

// d loss / d tensor at a few places by central differences, held against autograd's.
template <typename F>
void check_gradient(at::Tensor tensor, const F& loss) {
  float* values = tensor.detach().mutable_data_ptr<float>();
  const float* gradient = tensor.grad().const_data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel();
       i += std::max<std::int64_t>(1, tensor.numel() / 13)) {
    const float kept = values[i], h = 1e-2F;
    values[i] = kept + h;
    const double above = loss().template item<double>();
    values[i] = kept - h;
    const double below = loss().template item<double>();
    values[i] = kept;
    EXPECT_NEAR((above - below) / (2 * h), gradient[i],
                2e-2 * std::max(1.0F, std::abs(gradient[i])))
        << "place " << i;
  }
}

TEST(PathClassifier, EqualsPyTorchWithGradients) {
  const HeadFixture fixture;
  const auto B = fixture.size("B"), K = fixture.size("K"), H = fixture.size("H");
  const Matrix vectors = fixture.matrix("path", "class_vectors", K, H);
  std::vector<float> common = fixture.values("path", "mean");
  for (float& value : common) value *= .5F;
  const PathClassifier head(vectors.view(), common, fixture.values("path", "hub"));
  const at::Tensor documents = fixture.tensor("path", "documents", {B, H}).set_requires_grad(true);
  const at::Tensor targets = fixture.tensor("path", "targets", {B, K}),
                   weights = fixture.tensor("path", "weights", {B});
  const auto loss = [&] {
    return soft_target_cross_entropy(head.logits(documents), targets, weights);
  };
  EXPECT_LT(distance(head.logits(documents), fixture.tensor("path", "logits", {B, K})), 1e-5F);
  EXPECT_NEAR(soft_target_cross_entropy(head.logits(documents), targets).item<double>(),
              fixture.all["path"]["loss_unweighted"].get<double>(), 1e-4);
  const at::Tensor value = loss();
  EXPECT_NEAR(value.item<double>(), fixture.all["path"]["loss"].get<double>(), 1e-4);
  value.backward();
  const at::Tensor& learnt = head.parameters()[0].value;
  EXPECT_LT(distance(documents.grad(), fixture.tensor("path", "documents_gradient", {B, H})),
            1e-4F);
  EXPECT_LT(distance(learnt.grad(), fixture.tensor("path", "class_vectors_gradient", {K, H})),
            1e-4F);
  check_gradient(learnt, loss);
  EXPECT_EQ(head.class_vectors().values, vectors.values);
}

TEST(BilinearHead, EqualsPyTorchWithGradients) {
  const HeadFixture fixture;
  const auto B = fixture.size("B"), C = fixture.size("C"), H = fixture.size("H");
  const Matrix classes = fixture.matrix("bilinear", "class_embeddings", C, H);
  BilinearHead head(classes.view(), BilinearStart::identity, 1);
  const at::Tensor interaction =
      fixture.tensor("bilinear", "interaction", {H, H}).set_requires_grad(true);
  head.rebind(1, interaction);
  const at::Tensor documents =
      fixture.tensor("bilinear", "documents", {B, H}).set_requires_grad(true);
  const at::Tensor targets = fixture.tensor("bilinear", "targets", {B, C}),
                   mask = fixture.tensor("bilinear", "mask", {B, C});
  const at::Tensor weights = fixture.tensor("bilinear", "weights", {B});
  const auto loss = [&] {
    return masked_binary_cross_entropy(head.logits(documents), targets, mask, 10, weights);
  };
  EXPECT_LT(distance(head.logits(documents), fixture.tensor("bilinear", "logits", {B, C})), 2e-5F);
  EXPECT_NEAR(masked_binary_cross_entropy(head.logits(documents), targets, mask).item<double>(),
              fixture.all["bilinear"]["loss_plain"].get<double>(), 1e-3);
  const at::Tensor value = loss();
  EXPECT_NEAR(value.item<double>(), fixture.all["bilinear"]["loss"].get<double>(),
              1e-5 * value.item<double>());
  value.backward();
  EXPECT_LT(distance(documents.grad(), fixture.tensor("bilinear", "documents_gradient", {B, H})),
            1e-3F);
  EXPECT_LT(distance(head.parameters()[0].value.grad(),
                     fixture.tensor("bilinear", "class_embeddings_gradient", {C, H})),
            1e-3F);
  EXPECT_LT(
      distance(interaction.grad(), fixture.tensor("bilinear", "interaction_gradient", {H, H})),
      1e-3F);
}

TEST(BilinearHead, UniformStartIsBoundedSeededAndAroundZero) {
  const Matrix classes(3, 16);
  const BilinearHead first(classes.view(), BilinearStart::uniform, 1),
      same(classes.view(), BilinearStart::uniform, 1);
  const BilinearHead other(classes.view(), BilinearStart::uniform, 2);
  double sum = 0, largest = 0;
  for (const float value : first.interaction().values)
    sum += value, largest = std::max(largest, static_cast<double>(std::abs(value)));
  EXPECT_LE(largest, .25);
  EXPECT_GT(largest, .2);
  EXPECT_LT(std::abs(sum / 256), .03);
  EXPECT_EQ(first.interaction().values, same.interaction().values);
  EXPECT_NE(first.interaction().values, other.interaction().values);
}

}  // namespace
}  // namespace gpuhpc
