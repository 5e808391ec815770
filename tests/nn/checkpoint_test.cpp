// Activation checkpointing: the same loss and gradients bit for bit, for less memory. fp16 on
// processors.
#include <gpuhpc/device/memory.hpp>
#include <gpuhpc/nn/encoder.hpp>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "fixture.hpp"

namespace gpuhpc {
namespace {

EncoderConfig config_of(std::int64_t layers, std::int64_t hidden = 64) {
  EncoderConfig config;
  config.vocabulary_size = 100;
  config.hidden_size = hidden;
  config.layers = layers;
  config.heads = hidden / 32;
  config.intermediate_size = 4 * hidden;
  config.position_rows = 128;
  config.token_types = 2;
  return config;
}

Encoder random_encoder(const EncoderConfig& config) {
  Encoder encoder(config, at::kCPU);
  const at::Generator generator = make_generator(at::kCPU, 1);
  for (const NamedParameter& parameter : encoder.parameters())
    parameter.value.normal_(parameter.name.ends_with("LayerNorm.weight") ? 1 : 0, .1, generator);
  encoder.train_top_layers(-1);
  return encoder;
}

PackedTokens ragged_batch(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> ids, offsets{0};
  for (const std::int32_t length : lengths) {
    for (std::int32_t i = 0; i < length; ++i)
      ids.push_back(static_cast<std::int32_t>(ids.size() * 37 % 100));
    offsets.push_back(static_cast<std::int32_t>(ids.size()));
  }
  return pack_tokens(ids, offsets, at::kCPU);
}

struct Result {
  double loss = 0;
  std::vector<at::Tensor> gradients;
  std::int64_t peak = 0;    // bytes beyond what was held before
  at::Tensor next_numbers;  // what the generator gives afterwards
};

Result train(const EncoderConfig& config, const PackedTokens& batch, ForwardOptions options,
             double scale = 1) {
  Encoder encoder = random_encoder(config);
  options.generator = make_generator(at::kCPU, 7);
  limit_host_memory(0);
  reset_host_memory_peak();
  const std::int64_t before = host_memory().used;
  Result result;
  {
    const at::Tensor rows = encoder.embed(batch, {Pooling::mean, true, 128}, options);
    const at::Tensor loss =
        (rows * at::randn(rows.sizes(), make_generator(at::kCPU, 5))).sum() * scale;
    loss.backward();
    result.loss = loss.item<double>() / scale;
  }
  result.peak = host_memory().peak - before;
  for (const NamedParameter& parameter : encoder.parameters())
    result.gradients.push_back(parameter.value.grad() / scale);
  result.next_numbers = at::randn({4}, options.generator);
  return result;
}

struct CheckpointCase {
  const char* name;
  at::ScalarType compute;
  double dropout;
};

class Checkpointing : public ::testing::TestWithParam<CheckpointCase> {};

TEST_P(Checkpointing, GivesTheSameBitsForLessMemory) {
  at::set_num_threads(1);
  const PackedTokens batch = ragged_batch({96, 3, 57, 80, 41, 96, 12, 64});
  ForwardOptions options;
  options.compute = GetParam().compute;
  options.hidden_dropout = options.attention_dropout = GetParam().dropout;
  const Result whole = train(config_of(6), batch, options);
  options.checkpoint_layers = true;
  const Result checkpointed = train(config_of(6), batch, options);
  EXPECT_EQ(whole.loss, checkpointed.loss);
  ASSERT_EQ(whole.gradients.size(), checkpointed.gradients.size());
  for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
    EXPECT_TRUE(at::equal(whole.gradients[i], checkpointed.gradients[i])) << "parameter " << i;
    EXPECT_GT(whole.gradients[i].abs().max().item<double>(), 0) << "parameter " << i;
  }
  EXPECT_TRUE(at::equal(whole.next_numbers, checkpointed.next_numbers))
      << "the backward pass must not move the generator";
  std::printf("%s: peak of tensors %.2f MB, with checkpointing %.2f MB\n", GetParam().name,
              static_cast<double>(whole.peak) / 1e6, static_cast<double>(checkpointed.peak) / 1e6);
  EXPECT_LT(static_cast<double>(checkpointed.peak), .6 * static_cast<double>(whole.peak));
}

INSTANTIATE_TEST_SUITE_P(Layers, Checkpointing,
                         ::testing::Values(CheckpointCase{"fp32", at::kFloat, 0},
                                           CheckpointCase{"bf16", at::kBFloat16, 0},
                                           CheckpointCase{"fp16", at::kHalf, 0},
                                           CheckpointCase{"fp32_dropout", at::kFloat, .1},
                                           CheckpointCase{"bf16_dropout", at::kBFloat16, .1}),
                         [](const auto& which) { return std::string(which.param.name); });

// The gradient under dropout is the slope of what the forward pass computes with the same seed.
TEST(Dropout, GradientsAreTheSlopeOfTheSameDraws) {
  const PackedTokens batch = ragged_batch({33, 5, 18, 40});
  for (const bool plain : {false, true}) {
    ForwardOptions options;
    options.plain_layers = plain;
    options.hidden_dropout = .3, options.attention_dropout = .2;
    Encoder encoder = random_encoder(config_of(2));
    const auto loss = [&] {
      options.generator = make_generator(at::kCPU, 11);
      const at::Tensor rows = encoder.forward(batch, options);
      return (rows * at::randn(rows.sizes(), make_generator(at::kCPU, 5))).sum();
    };
    loss().backward();
    double squares = 0;
    for (const NamedParameter& parameter : encoder.parameters())
      squares += std::pow(parameter.value.grad().norm().item<double>(), 2);
    const at::NoGradGuard no_grad;
    const double step = 2e-3;
    const auto move = [&](double by) {
      for (const NamedParameter& parameter : encoder.parameters())
        parameter.value.add_(parameter.value.grad(), by / std::sqrt(squares));
    };
    move(step);
    const double above = loss().item<double>();
    move(-2 * step);
    const double below = loss().item<double>();
    EXPECT_NEAR((above - below) / (2 * step) / std::sqrt(squares), 1, .01) << "plain " << plain;
  }
}

// What dropout does to the output is as large as with LibTorch's dropout in the same places.
TEST(Dropout, MovesTheOutputAsFarAsLibTorchs) {
  const PackedTokens batch = ragged_batch({64, 30, 7, 50, 64, 12});
  const Encoder encoder = random_encoder(config_of(1));
  const at::NoGradGuard no_grad;
  for (const auto& [hidden, attention] : {std::pair{.3, 0.}, {0., .4}}) {
    double moved[2] = {0, 0};
    for (const bool plain : {false, true}) {
      ForwardOptions options;
      options.plain_layers = plain;
      const at::Tensor clean = encoder.forward(batch, options);
      options.hidden_dropout = hidden, options.attention_dropout = attention;
      for (std::uint64_t seed = 0; seed < 40; ++seed) {
        options.generator = make_generator(at::kCPU, seed);
        moved[plain] += (encoder.forward(batch, options) - clean).square().mean().item<double>();
      }
    }
    EXPECT_NEAR(moved[0] / moved[1], 1, .06) << hidden << " " << attention;
    EXPECT_GT(moved[0], 0);
  }
}

TEST(CheckpointedLayers, FrozenOnesStayFrozen) {
  const PackedTokens batch = ragged_batch({20, 9});
  for (const double dropout : {0.0, 0.1}) {
    Encoder encoder = random_encoder(config_of(3));
    encoder.train_top_layers(1);
    ForwardOptions options;
    options.checkpoint_layers = true;
    options.hidden_dropout = dropout;
    options.generator = make_generator(at::kCPU, 7);
    encoder.forward(batch, options).sum().backward();
    for (const NamedParameter& parameter : encoder.parameters())
      EXPECT_EQ(parameter.value.grad().defined(), parameter.name.starts_with("encoder.layer.2."))
          << parameter.name;
  }
}

// fp16 with a loss scale: gradients as near to fp32 as ten bits allow, and none lost to underflow.
TEST(HalfOnProcessors, FollowsFullPrecision) {
  const PackedTokens batch = ragged_batch({30, 3, 57, 12});
  ForwardOptions options;
  const Result full = train(config_of(3), batch, options);
  options.compute = at::kHalf;
  const Result half = train(config_of(3), batch, options, 1024);
  EXPECT_NEAR(half.loss, full.loss, 1e-2);
  double product = 0, of_half = 0, of_full = 0;
  for (std::size_t i = 0; i < full.gradients.size(); ++i) {
    EXPECT_EQ(half.gradients[i].scalar_type(), at::kFloat);
    product += (half.gradients[i] * full.gradients[i]).sum().item<double>();
    of_half += (half.gradients[i] * half.gradients[i]).sum().item<double>();
    of_full += (full.gradients[i] * full.gradients[i]).sum().item<double>();
  }
  EXPECT_GE(product / std::sqrt(of_half * of_full), 0.9999);
  EXPECT_NEAR(std::sqrt(of_half / of_full), 1, 1e-3);
}

}  // namespace
}  // namespace gpuhpc
