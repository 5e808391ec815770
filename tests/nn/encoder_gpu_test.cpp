// The encoder on a GPU beside the same weights on the processor: vectors, gradients, pooling,
// checkpointed layers, dropout.
#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/sum.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "../gpu.hpp"
#include "fixture.hpp"

namespace gpuhpc {
namespace {

PackedTokens ragged_batch(at::Device device, const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> ids, offsets{0};
  for (const std::int32_t length : lengths) {
    for (std::int32_t i = 0; i < length; ++i)
      ids.push_back(static_cast<std::int32_t>((ids.size() * 7919 + 13) % 1000));
    offsets.push_back(static_cast<std::int32_t>(ids.size()));
  }
  return pack_tokens(ids, offsets, device);
}
const std::vector<std::int32_t> ragged = {128, 1, 77, 3, 40, 200, 16, 65, 2, 128};

struct Result {
  at::Tensor rows;  // (B,H)
  std::vector<at::Tensor> gradients;
  at::Tensor gradient;    // all of them, flat, on the processor
  std::int64_t peak = 0;  // bytes of the GPU beyond what was held before
};

Result learn(Encoder& encoder, const ForwardOptions& options, Pooling pooling = Pooling::mean,
             double scale = 1) {
  encoder.train_top_layers(-1);
  for (const NamedParameter& parameter : encoder.parameters())
    parameter.value.mutable_grad() = at::Tensor();
  const bool cuda = encoder.device().is_cuda();
  std::int64_t before = 0;
  const auto stats = [] { return at::accelerator::getDeviceStats(0).allocated_bytes[0]; };
  if (cuda) {
    at::accelerator::resetPeakStats(0);
    before = stats().current;
  }
  Result result;
  {
    result.rows =
        encoder.embed(ragged_batch(encoder.device(), ragged), {pooling, false, 512}, options);
    (result.rows *
     at::randn(result.rows.sizes(), make_generator(at::kCPU, 5)).to(encoder.device()) * scale)
        .sum()
        .backward();
  }
  if (cuda) result.peak = stats().peak - before;
  std::vector<at::Tensor> flat;
  for (const NamedParameter& parameter : encoder.parameters()) {
    if (!parameter.value.grad().defined()) continue;  // the pooler's, where it has no part
    result.gradients.push_back(parameter.value.grad() / scale);
    flat.push_back(result.gradients.back().flatten().to(at::kCPU));
  }
  result.gradient = at::cat(flat);
  return result;
}

struct Case {
  const char* name;
  std::int64_t layers, hidden;
  at::ScalarType compute;
  double of_rows, of_gradient;  // how far from the processor's fp32 they may be; its own bf16 comes
                                // to 5e-3, its fp16 to 6e-4
};

class EncoderOnGpu : public ::testing::TestWithParam<Case> {};

TEST_P(EncoderOnGpu, VectorsAndGradientsAreTheProcessors) {
  const Case& c = GetParam();
  Encoder here = random_bert(c.layers, c.hidden, at::kCPU),
          there = random_bert(c.layers, c.hidden, gpu());
  const Result wanted = learn(here, computing_in(at::kFloat)),
               ours = learn(there, computing_in(c.compute), Pooling::mean,
                            c.compute == at::kHalf ? 1024 : 1);
  EXPECT_TRUE(ours.rows.is_cuda());
  EXPECT_EQ(ours.rows.scalar_type(), at::kFloat);
  const double rows = distance(ours.rows, wanted.rows),
               gradient = distance(ours.gradient, wanted.gradient);
  std::printf("%s: vectors %.1e, gradients %.1e from the processor's fp32\n", c.name, rows,
              gradient);
  EXPECT_LE(rows, c.of_rows);
  EXPECT_LE(gradient, c.of_gradient);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, EncoderOnGpu,
    ::testing::Values(Case{"minilm_fp32", 6, 384, at::kFloat, 1e-5, 1e-5},
                      Case{"minilm_bf16", 6, 384, at::kBFloat16, 1e-2, 1.5e-2},
                      Case{"minilm_fp16", 6, 384, at::kHalf, 1.5e-3, 2e-3},
                      Case{"bert_base_fp32", 12, 768, at::kFloat, 1e-5, 1e-5},
                      Case{"bert_base_bf16", 12, 768, at::kBFloat16, 1e-2, 1.5e-2},
                      Case{"bert_base_fp16", 12, 768, at::kHalf, 1.5e-3, 2e-3}),
    [](const auto& which) { return std::string(which.param.name); });

TEST(Pooling, IsTheProcessorsOnAGpu) {
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::max, Pooling::pooler}) {
    Encoder here = random_bert(2, 128, at::kCPU), there = random_bert(2, 128, gpu());
    const Result wanted = learn(here, computing_in(at::kFloat), pooling),
                 ours = learn(there, computing_in(at::kFloat), pooling);
    EXPECT_LE(distance(ours.rows, wanted.rows), 1e-5) << to_string(pooling);
    EXPECT_LE(distance(ours.gradient, wanted.gradient), 1e-5) << to_string(pooling);
  }
}

TEST(PackedOnGpu, DocumentsDoNotSeeTheirNeighbours) {
  const c10::NoGradGuard no_grad;
  const Encoder encoder = random_bert(3, 384, gpu());
  for (const auto& [compute, bound] : {std::pair{at::kFloat, 1e-6}, {at::kBFloat16, 1e-2}}) {
    const PackedTokens batch = ragged_batch(gpu(), ragged);
    const at::Tensor together =
                         encoder.embed(batch, {Pooling::mean, true, 512}, computing_in(compute)),
                     ids = batch.token_ids.to(at::kCPU, at::kInt);
    for (std::size_t b = 0; b < ragged.size(); ++b) {
      const std::int32_t* first = ids.const_data_ptr<std::int32_t>() + batch.offsets[b];
      const std::vector<std::int32_t> own(first, first + ragged[b]), offsets{0, ragged[b]};
      EXPECT_LE(distance(encoder.embed(pack_tokens(own, offsets, gpu()), {Pooling::mean, true, 512},
                                       computing_in(compute))[0],
                         together[static_cast<std::int64_t>(b)]),
                bound)
          << b;
    }
  }
}

// Hidden dropout draws from `options.generator`, attention from the device's own.
ForwardOptions dropping(ForwardOptions options, std::uint64_t seed, double rate = .1) {
  options.hidden_dropout = options.attention_dropout = rate;
  options.generator = make_generator(gpu(), seed);
  at::Generator own = at::globalContext().defaultGenerator(gpu());
  own.set_current_seed(seed);
  return options;
}

TEST(CheckpointingOnGpu, GivesTheSameBitsForLessMemory) {
  const Deterministic bits;
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const double rate : {0.0, .1}) {
      Encoder encoder = random_bert(6, 384, gpu());
      const auto options = [&] {
        return rate > 0 ? dropping(computing_in(compute), 7, rate) : computing_in(compute);
      };
      const Result whole = learn(encoder, options());
      ForwardOptions checkpointing = options();
      checkpointing.checkpoint_layers = true;
      const Result checkpointed = learn(encoder, checkpointing);
      EXPECT_TRUE(at::equal(whole.rows, checkpointed.rows)) << compute << ", dropout " << rate;
      ASSERT_EQ(whole.gradients.size(), checkpointed.gradients.size());
      for (std::size_t i = 0; i < whole.gradients.size(); ++i)
        EXPECT_TRUE(at::equal(whole.gradients[i], checkpointed.gradients[i]))
            << compute << ", dropout " << rate << ", parameter " << i;
      EXPECT_LT(checkpointed.peak, whole.peak) << compute << ", dropout " << rate;
    }
}

TEST(DropoutOnGpu, IsSeeded) {
  const c10::NoGradGuard no_grad;
  const Encoder encoder = random_bert(2, 128, gpu());
  const PackedTokens batch = ragged_batch(gpu(), ragged);
  const auto run = [&](std::uint64_t seed) {
    return encoder.forward(batch, dropping(computing_in(at::kBFloat16), seed));
  };
  EXPECT_TRUE(at::equal(run(3), run(3)));
  EXPECT_GT(distance(run(3), run(4)), 1e-2);
}

// What is kept is divided by its share in fp32, then rounded: 1 / .9 in bf16 is .16 % too small.
TEST(DropoutOnGpu, ScalesInFp32) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor x = at::randn({400, 300}, at::TensorOptions().device(gpu()).dtype(type))
                             .set_requires_grad(true),
                     y = seeded_dropout(x, .1, make_generator(gpu(), 5)),
                     gradient = at::randn_like(x);
    y.backward(gradient);
    const auto expect_scaled = [&](const at::Tensor& values, const at::Tensor& before) {
      const at::Tensor wanted = before.detach().to(at::kDouble).div(.9).masked_fill(y == 0, 0);
      EXPECT_EQ(values.scalar_type(), type);
      const at::Tensor ratio = values.to(at::kDouble).abs().sum() / wanted.abs().sum();
      EXPECT_NEAR(ratio.item<double>(), 1, 2e-4);
    };
    expect_scaled(y, x), expect_scaled(x.grad(), gradient);
  }
}

}  // namespace
}  // namespace gpuhpc
