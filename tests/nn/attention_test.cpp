// Attention with a bias by distance and with dropout on processors: the kernels, and LibTorch's
// operators over threads, against the plain formula on LibTorch's autograd.
#include <gpuhpc/kernels/isa.hpp>
#include <gpuhpc/nn/ops.hpp>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixture.hpp"

namespace gpuhpc {
namespace {

struct AttentionCase {
  std::int64_t heads, size;
  std::vector<std::int32_t> lengths;
  double divisor;
  bool causal, biased;
};

std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  return out << c.heads << " heads of " << c.size << ", " << c.lengths.size()
             << " documents, causal " << c.causal << ", bias " << c.biased << ", divisor "
             << c.divisor;
}

const AttentionCase cases[] = {
    {3, 32, {1, 33, 64, 7, 150}, 1, false, true},
    {3, 32, {1, 33, 64, 7, 150}, 1, true, true},
    {4, 6, {5, 1, 31, 47}, 1, false, true},
    {4, 6, {5, 1, 31, 47}, 1, true, true},
    {2, 40, {129, 2, 40}, 6.3, false, true},
    {2, 40, {129, 2, 40}, 6.3, true, false},
    {1, 64, {260}, 8, true, true},
};

PackedOffsets offsets_of(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> offsets{0};
  for (const std::int32_t length : lengths) offsets.push_back(offsets.back() + length);
  return pack_tokens(std::vector<std::int32_t>(static_cast<std::size_t>(offsets.back())), offsets,
                     at::kCPU);
}

// What stands in for options.scores forces the plain formula.
at::Tensor as_they_are(const at::Tensor& products, const at::Tensor& /*queries*/,
                       const at::Tensor& /*keys*/) {
  return products;
}

struct Inputs {
  PackedOffsets offsets;
  at::Tensor qkv, bias, weights;  // of the sum that is differentiated

  Inputs(const AttentionCase& c, at::ScalarType type) : offsets(offsets_of(c.lengths)) {
    const std::int64_t tokens = offsets.offsets.back(), inner = c.heads * c.size;
    const at::Generator random = make_generator(at::kCPU, 5);
    qkv = at::randn({tokens, 3 * inner}, random).mul_(.7).to(type).set_requires_grad(true);
    if (c.biased)
      bias = at::randn({c.heads, 2 * offsets.max_len + 3}, random).set_requires_grad(true);
    weights = at::randn({tokens, inner}, random);
  }
};

struct Outcome {
  at::Tensor output, of_qkv, of_bias;
};

Outcome outcome(const AttentionCase& c, const Inputs& inputs, bool plain, double dropout = 0,
                std::uint64_t seed = 1) {
  AttentionOptions options{.divisor = c.divisor, .causal = c.causal, .bias = inputs.bias};
  if (plain) options.scores = as_they_are;
  options.dropout = dropout, options.generator = make_generator(at::kCPU, seed);
  for (const at::Tensor& x : {inputs.qkv, inputs.bias})
    if (x.defined()) x.mutable_grad() = at::Tensor();
  const at::Tensor out = self_attention(inputs.qkv, c.heads, inputs.offsets, options);
  (out.to(at::kFloat) * inputs.weights).sum().backward();
  return {out.detach(), inputs.qkv.grad().clone(),
          inputs.bias.defined() ? inputs.bias.grad().clone() : at::Tensor()};
}

double relative(const at::Tensor& ours, const at::Tensor& wanted) {
  return largest_difference(ours.to(at::kFloat), wanted.to(at::kFloat)) /
         wanted.abs().max().item<double>();
}

void expect_close(const AttentionCase& c, const Outcome& ours, const Outcome& wanted,
                  double tolerance) {
  EXPECT_LE(relative(ours.output, wanted.output), tolerance) << c;
  EXPECT_LE(relative(ours.of_qkv, wanted.of_qkv), tolerance) << c;
  if (c.biased) {
    EXPECT_LE(relative(ours.of_bias, wanted.of_bias), tolerance) << c;
  }
}

TEST(SelfAttention, WithABiasEqualsThePlainFormula) {
  for (const AttentionCase& c : cases) {
    const Inputs inputs(c, at::kFloat);
    expect_close(c, outcome(c, inputs, false), outcome(c, inputs, true), 1e-5);
  }
}

// The plain formula in fp32 of what was rounded.
TEST(SelfAttention, InBf16StaysNearFullPrecision) {
  for (const AttentionCase& c : cases) {
    Inputs inputs(c, at::kBFloat16), exact(c, at::kFloat);
    exact.qkv = inputs.qkv.detach().to(at::kFloat).set_requires_grad(true);
    expect_close(c, outcome(c, inputs, false), outcome(c, exact, true), .015);
  }
}

// A causal mask leaves nothing of the keys behind a place: other ones give the same bits.
TEST(SelfAttention, SeesNothingBehindItsPlace) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const double dropout : {0., .2}) {
      const AttentionCase c{2, 32, {70}, 1, true, true};
      const Inputs inputs(c, type);
      const at::Tensor before = outcome(c, inputs, false, dropout).output;
      {
        const at::NoGradGuard no_grad;
        inputs.qkv.narrow(0, 41, 29).mul_(-1.5).add_(.5);
      }
      const at::Tensor after = outcome(c, inputs, false, dropout).output;
      EXPECT_TRUE(before.narrow(0, 0, 41).equal(after.narrow(0, 0, 41))) << type << " " << dropout;
      EXPECT_FALSE(before.narrow(0, 41, 1).equal(after.narrow(0, 41, 1)));
    }
}

TEST(SelfAttention, IsTheSameOnAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const AttentionCase c{3, 32, {50, 3, 77, 12, 64, 1, 30}, 1, false, true};
    const Inputs inputs(c, type);
    at::set_num_threads(1);
    const Outcome alone = outcome(c, inputs, false, .1);
    for (const int threads : {2, 3}) {
      at::set_num_threads(threads);
      const Outcome together = outcome(c, inputs, false, .1);
      EXPECT_TRUE(alone.output.equal(together.output)) << threads;
      EXPECT_TRUE(alone.of_qkv.equal(together.of_qkv)) << threads;
      EXPECT_TRUE(alone.of_bias.equal(together.of_bias)) << threads;
    }
  }
  at::set_num_threads(before);
}

// Values of one give sums of what stays of the probabilities: 1 on average, and 0 or more than 1
// where there is one key.
TEST(SelfAttention, DropsTheShareThatWasAsked) {
  const AttentionCase c{4, 32, std::vector<std::int32_t>(300, 1), 1, false, true};
  const Inputs inputs(c, at::kFloat);
  {
    const at::NoGradGuard no_grad;
    inputs.qkv.narrow(1, 2 * 128, 128).fill_(1);
  }
  const at::Tensor sums = outcome(c, inputs, false, .25).output.view({300, 4, 32}).select(2, 0);
  EXPECT_NEAR((sums == 0).to(at::kFloat).mean().item<double>(), .25, .05);
  EXPECT_NEAR(sums.max().item<double>(), 1 / .75, 1e-4);
  EXPECT_FALSE((sums == sums[0]).all().item<bool>());  // each document its own
  EXPECT_FALSE(
      sums.equal(outcome(c, inputs, false, .25, 2).output.view({300, 4, 32}).select(2, 0)));
}

// The loss's slope along a direction of all inputs, by central differences of the same dropout.
template <typename Loss>
void expect_slopes(const std::vector<at::Tensor>& inputs, const Loss& loss) {
  loss().backward();
  std::vector<at::Tensor> directions;
  double slope = 0;
  const at::Generator random = make_generator(at::kCPU, 17);
  for (const at::Tensor& x : inputs) {
    directions.push_back(at::randn(x.sizes(), random));
    slope += (x.grad() * directions.back()).sum().template item<double>();
  }
  const at::NoGradGuard no_grad;
  const auto moved = [&](double step) {
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].add_(directions[i], step);
    return loss().template item<double>();
  };
  constexpr double step = 2e-3;
  const double high = moved(step), low = moved(-2 * step);
  EXPECT_NEAR((high - low) / (2 * step) / slope, 1, 4e-3) << slope;
}

TEST(SelfAttention, GradientsFollowTheDropout) {
  for (const AttentionCase& c : cases) {
    const Inputs inputs(c, at::kFloat);
    const std::vector<at::Tensor> learnt =
        c.biased ? std::vector<at::Tensor>{inputs.qkv, inputs.bias} : std::vector{inputs.qkv};
    expect_slopes(learnt, [&] {
      AttentionOptions options{.divisor = c.divisor, .causal = c.causal, .bias = inputs.bias};
      options.dropout = .3, options.generator = make_generator(at::kCPU, 3);
      return (self_attention(inputs.qkv, c.heads, inputs.offsets, options) * inputs.weights)
          .to(at::kDouble)
          .sum();
    });
  }
}

// Queries over other sequences' keys: LibTorch's operators over threads.
struct Cross {
  PackedOffsets queries = offsets_of({3, 1, 20, 9}), keys = offsets_of({50, 2, 33, 70});
  at::Tensor q, k, v, weights;

  explicit Cross(at::ScalarType type) {
    const at::Generator random = make_generator(at::kCPU, 8);
    const auto drawn = [&](std::int64_t rows, std::int64_t size) {
      return at::randn({rows, 2, size}, random).to(type).set_requires_grad(true);
    };
    q = drawn(33, 24), k = drawn(155, 24), v = drawn(155, 10);
    weights = at::randn({33, 20}, random);
  }
  at::Tensor loss(double dropout, bool plain, const at::Tensor& bias = {}) const {
    AttentionOptions options{.divisor = 3, .bias = bias};
    if (plain) options.scores = as_they_are;
    options.dropout = dropout, options.generator = make_generator(at::kCPU, 4);
    return (attention(q, k, v, queries, keys, options) * weights).to(at::kDouble).sum();
  }
};

TEST(CrossAttention, WithABiasEqualsThePlainFormula) {
  const Cross cross(at::kFloat);
  const at::Tensor bias =
      at::randn({2, 2 * 75 - 1}, make_generator(at::kCPU, 2)).set_requires_grad(true);
  std::vector<at::Tensor> gradients[2];
  at::Tensor losses[2];
  for (const bool plain : {false, true}) {
    for (const at::Tensor& x : {cross.q, cross.k, cross.v, bias}) x.mutable_grad() = at::Tensor();
    losses[plain] = cross.loss(0, plain, bias);
    losses[plain].backward();
    for (const at::Tensor& x : {cross.q, cross.k, cross.v, bias})
      gradients[plain].push_back(x.grad().clone());
  }
  EXPECT_NEAR(losses[0].item<double>() / losses[1].item<double>(), 1, 1e-5);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_LE(relative(gradients[0][i], gradients[1][i]), 1e-5) << i;
}

TEST(CrossAttention, GradientsFollowTheDropout) {
  const Cross cross(at::kFloat);
  expect_slopes({cross.q, cross.k, cross.v}, [&] { return cross.loss(.3, false); });
  EXPECT_NE(cross.loss(.3, false).item<double>(), cross.loss(0, true).item<double>());
}

}  // namespace
}  // namespace gpuhpc
