#include "gpuhpc/train/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

at::Tensor tensor_of(const nlohmann::json& values, std::vector<std::int64_t> shape) {
  auto numbers = values.get<std::vector<float>>();
  return at::from_blob(numbers.data(), shape, at::TensorOptions().dtype(at::kFloat)).clone();
}

nlohmann::json fixture() {
  std::ifstream file(GPUHPC_FIXTURES "/pytorch.json");
  return nlohmann::json::parse(file);
}

// The three tensors of the fixture in an arena with PyTorch's two groups.
struct PyTorchRun {
  explicit PyTorchRun(const nlohmann::json& run) : arena(groups(run)) {}
  std::vector<ParameterGroup> groups(const nlohmann::json& run) {
    const auto slot = [&](const std::string& name) {
      at::Tensor& place = tensors[name];
      place = tensor_of(run["start"][name], run["shapes"][name]).set_requires_grad(true);
      return ParameterSlot{name, place, [&place](at::Tensor view) { place = view; }};
    };
    return {{"matrices", 1e-2, .05, {slot("weight"), slot("embedding")}}, {"bias", 3e-2, 0, {slot("bias")}}};
  }
  std::map<std::string, at::Tensor> tensors;
  ParameterArena arena;
};

// All 12 updates with `optimizers` (one a slice), held against PyTorch after each.
void follow(const nlohmann::json& run, int slices) {
  PyTorchRun setup(run);
  std::vector<AdamW> optimizers;
  for (int i = 0; i < slices; ++i) optimizers.emplace_back(setup.arena, AdamWOptions{.9, .98, 1e-8}, setup.arena.slice(i, slices));
  for (const auto& step : run["steps"]) {
    for (auto& [name, tensor] : setup.tensors) {
      at::Tensor gradient = tensor.grad();
      gradient.copy_(tensor_of(step["gradients"][name], run["shapes"][name]));
    }
    const double norm = gradient_norm(setup.arena, {0, setup.arena.capacity()}), clip = run["clip"];
    if (clip > 0) {
      EXPECT_NEAR(norm, step["norm"].get<double>(), 1e-5 * norm);
    }
    for (AdamW& optimizer : optimizers) optimizer.step(step["factor"], clip_factor(norm, clip));
    for (const auto& [name, tensor] : setup.tensors) {
      const at::Tensor expected = tensor_of(step["parameters"][name], run["shapes"][name]);
      EXPECT_LT(tensor.detach().sub(expected).abs().max().item<float>(), 2e-6F) << name;
    }
  }
}

TEST(AdamW, EqualsPyTorch) {
  const nlohmann::json all = fixture();
  for (const auto& run : all["runs"]) follow(run, 1);
}

TEST(AdamW, SlicesGiveTheSameUpdates) {
  const nlohmann::json all = fixture();
  for (const auto& run : all["runs"])
    for (const int slices : {2, 3, 5}) follow(run, slices);
}

TEST(AdamW, DecayAloneShrinksAndPaddingStaysZero) {
  PyTorchRun setup(fixture()["runs"][0]);
  AdamW optimizer(setup.arena, {});
  const float before = setup.tensors["weight"].detach().select(0, 0).select(0, 0).item<float>(),
              bias = setup.tensors["bias"].detach().select(0, 0).item<float>();
  optimizer.step(.5, 1);  // gradients are zero
  EXPECT_FLOAT_EQ(setup.tensors["weight"].detach().select(0, 0).select(0, 0).item<float>(), before * (1 - .5F * 1e-2F * .05F));
  EXPECT_FLOAT_EQ(setup.tensors["bias"].detach().select(0, 0).item<float>(), bias);
  const auto& last = setup.arena.entries().back().range;
  EXPECT_EQ(setup.arena.parameters().narrow(0, last.last, setup.arena.capacity() - last.last).abs().sum().item<float>(), 0);
}

TEST(GradientNorm, EqualsTheDirectSumAndSeesWhatIsNotFinite) {
  TinyTask task(1);
  float* gradients = task.arena.gradients().mutable_data_ptr<float>();
  double expected = 0;
  for (std::int64_t i = 0; i < task.arena.capacity(); ++i) {
    gradients[i] = static_cast<float>(std::sin(.37 * static_cast<double>(i)));
    expected += static_cast<double>(gradients[i]) * gradients[i];
  }
  EXPECT_NEAR(gradient_norm(task.arena, {0, task.arena.capacity()}), std::sqrt(expected), 1e-12 * std::sqrt(expected));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    gradients[17] = bad;
    EXPECT_FALSE(std::isfinite(gradient_norm(task.arena, {0, task.arena.capacity()})));
  }
}

TEST(Clip, BringsTheNormDownToTheLimitOnly) {
  EXPECT_EQ(clip_factor(.5, 1), 1);
  EXPECT_EQ(clip_factor(4, 1), .25);
  EXPECT_EQ(clip_factor(4, 0), 1);
  EXPECT_EQ(clip_factor(0, 1), 1);
}

}  // namespace
}  // namespace gpuhpc
