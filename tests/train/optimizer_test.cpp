#include "gpuhpc/train/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "gpuhpc/base/error.hpp"
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
    return {{"matrices", 1e-2, .05, {slot("weight"), slot("embedding")}},
            {"bias", 3e-2, 0, {slot("bias")}}};
  }
  std::map<std::string, at::Tensor> tensors;
  ParameterArena arena;
};

// All 12 updates with `optimizers` (one a slice), held against PyTorch after each.
void follow(const nlohmann::json& run, int slices) {
  PyTorchRun setup(run);
  std::vector<AdamW> optimizers;
  for (int i = 0; i < slices; ++i)
    optimizers.emplace_back(setup.arena, OptimizerOptions{.9, .98, 1e-8},
                            setup.arena.slice(i, slices));
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

// A share of several ranges: moments lie one behind the other, floats outside the ranges stay.
TEST(AdamW, RangesGiveTheSameUpdates) {
  const nlohmann::json run = fixture()["runs"][0];
  PyTorchRun whole(run), parts(run);
  const std::int64_t end = whole.arena.capacity();
  AdamW all(whole.arena, {});
  AdamW odd(parts.arena, {}, std::vector<Range>{{0, 16}, {32, 48}}),
      even(parts.arena, {}, std::vector<Range>{{16, 32}, {48, end}});
  EXPECT_EQ(odd.first_moment().numel(), 32);
  for (int step = 0; step < 3; ++step) {
    for (PyTorchRun* setup : {&whole, &parts}) {
      float* gradients = setup->arena.gradients().mutable_data_ptr<float>();
      for (std::int64_t i = 0; i < end; ++i)
        gradients[i] = static_cast<float>(std::sin(.3 * static_cast<double>(i + step)));
    }
    all.step(1, .5);
    odd.step(1, .5);
    EXPECT_FALSE(whole.arena.parameters().equal(parts.arena.parameters()));
    even.step(1, .5);
    EXPECT_TRUE(whole.arena.parameters().equal(parts.arena.parameters()));
  }
  EXPECT_TRUE(odd.second_moment().narrow(0, 16, 16).equal(all.second_moment().narrow(0, 32, 16)));
  EXPECT_EQ(even.steps(), 3);
}

// You et al. 2020, algorithm 2, one value after the other, in double.
struct PlainLamb {
  explicit PlainLamb(const ParameterArena& arena)
      : mean(static_cast<std::size_t>(arena.capacity())), square(mean.size()) {}
  void step(ParameterArena& arena, std::vector<double>& weights, double factor, double scale,
            int count) {
    const float* gradients = arena.gradients().const_data_ptr<float>();
    for (const ParameterArena::Entry& entry : arena.entries()) {
      const auto& group = *std::ranges::find_if(
          arena.groups(), [&](const auto& g) { return entry.range.first < g.range.last; });
      std::vector<double> direction;
      double of_weights = 0, of_direction = 0;
      for (auto i = static_cast<std::size_t>(entry.range.first);
           i < static_cast<std::size_t>(entry.range.last); ++i) {
        const double gradient = gradients[i] * scale;
        mean[i] = .9 * mean[i] + .1 * gradient;
        square[i] = .98 * square[i] + .02 * gradient * gradient;
        const double adam = mean[i] / (1 - std::pow(.9, count)) /
                            (std::sqrt(square[i] / (1 - std::pow(.98, count))) + 1e-6);
        direction.push_back(adam + group.weight_decay * weights[i]);
        of_weights += weights[i] * weights[i];
        of_direction += direction.back() * direction.back();
      }
      const double trust = entry.shape.size() > 1 && of_weights > 0 && of_direction > 0
                               ? std::sqrt(of_weights / of_direction)
                               : 1;
      for (std::size_t i = 0; i < direction.size(); ++i)
        weights[static_cast<std::size_t>(entry.range.first) + i] -=
            group.learning_rate * factor * trust * direction[i];
    }
  }
  std::vector<double> mean, square;
};

// Adds up the vectors of several threads.
class SumOfThreads {
 public:
  explicit SumOfThreads(std::ptrdiff_t threads) : everyone_(threads) {}
  void operator()(std::span<double> values) {
    {
      const std::lock_guard lock(mutex_);
      total_.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) total_[i] += values[i];
    }
    everyone_.arrive_and_wait();
    std::ranges::copy(total_, values.begin());
    everyone_.arrive_and_wait();
    const std::lock_guard lock(mutex_);
    total_.clear();
  }

 private:
  std::barrier<> everyone_;
  std::mutex mutex_;
  std::vector<double> total_;
};

// In one piece, and in shares whose norms are added up as ranks do (a tensor may lie in several
// shares).
TEST(Adafactor, EqualsTransformers) {
  std::ifstream file(GPUHPC_FIXTURES "/adafactor.json");
  const nlohmann::json run = nlohmann::json::parse(file);
  PyTorchRun setup(run);
  const auto optimizer =
      make_optimizer("adafactor", setup.arena, {}, {Range{0, setup.arena.capacity()}});
  for (const auto& step : run["steps"]) {
    for (auto& [name, tensor] : setup.tensors) {
      at::Tensor gradient = tensor.grad();
      gradient.copy_(tensor_of(step["gradients"][name], run["shapes"][name]).mul_(5));
    }
    optimizer->step(step["factor"], .2);
    for (const auto& [name, tensor] : setup.tensors) {
      const at::Tensor expected = tensor_of(step["parameters"][name], run["shapes"][name]);
      EXPECT_LT(tensor.detach().sub(expected).abs().max().item<float>(), 2e-6F) << name;
    }
  }
}

TEST(Adafactor, RefusesAShareOfTheArena) {
  PyTorchRun setup(fixture()["runs"][0]);
  EXPECT_THROW(make_optimizer("adafactor", setup.arena, {}, {setup.arena.slice(0, 2)}), Error);
}

TEST(Lamb, EqualsThePlainLoop) {
  const OptimizerOptions options{.9, .98, 1e-6};
  for (const int slices : {1, 3}) {
    TinyTask task(1);
    PlainLamb plain(task.arena);
    const std::vector<float> start = task.weights();
    std::vector<double> weights(start.begin(), start.end());
    SumOfThreads sum(slices);
    std::vector<std::unique_ptr<Optimizer>> shares;
    for (int i = 0; i < slices; ++i)
      shares.push_back(make_optimizer("lamb", task.arena, options, {task.arena.slice(i, slices)},
                                      [&](std::span<double> norms) { sum(norms); }));
    for (int step = 1; step <= 12; ++step) {
      float* gradients = task.arena.gradients().mutable_data_ptr<float>();
      for (const auto& entry : task.arena.entries())
        for (std::int64_t i = entry.range.first; i < entry.range.last; ++i)
          gradients[i] = static_cast<float>(std::sin(.7 * static_cast<double>(i * step)));
      plain.step(task.arena, weights, .5, .25, step);
      std::vector<std::jthread> threads;
      for (const auto& share : shares) threads.emplace_back([&] { share->step(.5, .25); });
      threads.clear();
      const std::vector<float> now = task.weights();
      for (std::size_t i = 0; i < now.size(); ++i)
        ASSERT_NEAR(now[i], weights[i], 3e-6) << "float " << i << " after update " << step;
    }
  }
}

TEST(AdamW, DecayAloneShrinksAndPaddingStaysZero) {
  PyTorchRun setup(fixture()["runs"][0]);
  AdamW optimizer(setup.arena, {});
  const float before = setup.tensors["weight"].detach().select(0, 0).select(0, 0).item<float>(),
              bias = setup.tensors["bias"].detach().select(0, 0).item<float>();
  optimizer.step(.5, 1);  // gradients are zero
  EXPECT_FLOAT_EQ(setup.tensors["weight"].detach().select(0, 0).select(0, 0).item<float>(),
                  before * (1 - .5F * 1e-2F * .05F));
  EXPECT_FLOAT_EQ(setup.tensors["bias"].detach().select(0, 0).item<float>(), bias);
  const auto& last = setup.arena.entries().back().range;
  EXPECT_EQ(setup.arena.parameters()
                .narrow(0, last.last, setup.arena.capacity() - last.last)
                .abs()
                .sum()
                .item<float>(),
            0);
}

TEST(GradientNorm, EqualsTheDirectSumAndSeesWhatIsNotFinite) {
  TinyTask task(1);
  float* gradients = task.arena.gradients().mutable_data_ptr<float>();
  double expected = 0;
  for (std::int64_t i = 0; i < task.arena.capacity(); ++i) {
    gradients[i] = static_cast<float>(std::sin(.37 * static_cast<double>(i)));
    expected += static_cast<double>(gradients[i]) * gradients[i];
  }
  EXPECT_NEAR(gradient_norm(task.arena, {0, task.arena.capacity()}), std::sqrt(expected),
              1e-12 * std::sqrt(expected));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
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
