// The building blocks against LibTorch's own operators, and transformers' figures.
#include <gpuhpc/base/error.hpp>
#include <gpuhpc/nn/ops.hpp>

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "fixture.hpp"

namespace gpuhpc {
namespace {

PackedTokens sequences(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> offsets{0};
  for (const std::int32_t length : lengths) offsets.push_back(offsets.back() + length);
  return pack_tokens(std::vector<std::int32_t>(static_cast<std::size_t>(offsets.back()), 3),
                     offsets, at::kCPU);
}

at::Tensor leaf(std::vector<std::int64_t> shape) {
  return at::randn(shape, make_generator(at::kCPU, static_cast<std::uint64_t>(shape[0])))
      .set_requires_grad(true);
}

// (1,A,Lq,Lk) of a bias by distance, number by number.
at::Tensor spread(const at::Tensor& bias, std::int64_t queries, std::int64_t keys) {
  const std::int64_t middle = (bias.size(1) - 1) / 2;
  std::vector<at::Tensor> rows;
  for (std::int64_t q = 0; q < queries; ++q)
    rows.push_back(bias.narrow(1, middle - q, keys).unsqueeze(1));
  return at::cat(rows, 1).unsqueeze(0);
}

struct AttentionKind {
  bool cross, causal, biased;
};
class Attention : public ::testing::TestWithParam<AttentionKind> {};

TEST_P(Attention, EqualsPaddedAttentionWithGradients) {
  const bool cross = GetParam().cross, causal = GetParam().causal, biased = GetParam().biased;
  constexpr std::int64_t heads = 3, size = 5;
  const PackedTokens queries = sequences({4, 1, 9}), keys = cross ? sequences({7, 2, 1}) : queries;
  const at::Tensor q = leaf({queries.tokens(), heads, size}),
                   k = leaf({keys.tokens() + 1, heads, size}).narrow(0, 0, keys.tokens()),
                   v = leaf({keys.tokens() + 2, heads, size}).narrow(0, 0, keys.tokens()),
                   bias = leaf({heads, 2 * 11 - 1}),
                   weights = at::randn({queries.tokens(), heads * size});
  const at::Tensor ours =
      attention(q, k, v, queries, keys,
                {.divisor = 1.7, .causal = causal, .bias = biased ? bias : at::Tensor()});
  std::vector<at::Tensor> parts;
  const auto own_q = q.split_with_sizes(queries.lengths()),
             own_k = k.split_with_sizes(keys.lengths()), own_v = v.split_with_sizes(keys.lengths());
  for (std::size_t b = 0; b < own_q.size(); ++b) {
    const auto by_head = [](const at::Tensor& rows) { return rows.transpose(0, 1).unsqueeze(0); };
    at::Tensor mask = at::zeros({1, heads, own_q[b].size(0), own_k[b].size(0)});
    if (biased) mask = mask + spread(bias, own_q[b].size(0), own_k[b].size(0));
    if (causal) mask = mask + at::zeros_like(mask).fill_(-1e30).triu(1);
    parts.push_back(at::scaled_dot_product_attention(by_head(own_q[b]), by_head(own_k[b]),
                                                     by_head(own_v[b]), mask, 0, false, 1 / 1.7)[0]
                        .transpose(0, 1)
                        .reshape({-1, heads * size}));
  }
  EXPECT_LE(largest_difference(ours, at::cat(parts)), 1e-6);
  const auto gradients = [&](const at::Tensor& output) {
    std::vector<at::Tensor> wanted{q, k, v};
    if (biased) wanted.push_back(bias);
    return torch::autograd::grad({(output * weights).sum()}, wanted);
  };
  const auto of_ours = gradients(ours), expected = gradients(at::cat(parts));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(largest_difference(of_ours[i], expected[i]), 5e-6) << i;
}
INSTANTIATE_TEST_SUITE_P(
    Kinds, Attention,
    ::testing::Values(AttentionKind{false, false, false}, AttentionKind{false, true, false},
                      AttentionKind{false, true, true}, AttentionKind{false, false, true},
                      AttentionKind{true, false, false}, AttentionKind{true, false, true}));

TEST(Packed, ACopyOnTheHostIsWholeRowsOfFloats) {
  const at::Tensor values = at::randn({3, 5}).to(at::kBFloat16).t();  // (5,3), every third number
  const at::Tensor copy = HostCopy(values).wait();
  ASSERT_TRUE(copy.is_contiguous());
  ASSERT_EQ(copy.sizes(), values.sizes());
  for (std::int64_t i = 0; i < 15; ++i)
    EXPECT_EQ(copy.const_data_ptr<float>()[i], values[i / 3][i % 3].item<float>());
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const PackedTokens three = sequences({4, 1, 9}), others = sequences({7, 2, 1}),
                     two = sequences({4, 10});
  const at::Tensor q = at::zeros({14, 2, 4}), k = at::zeros({10, 2, 4});
  EXPECT_THROW(attention(q, q, q, three, two, {}), Error);
  EXPECT_THROW(attention(q, k, k, three, others, {.causal = true}), Error);
  EXPECT_THROW(attention(q, q, q, three, three, {.bias = at::zeros({2, 2 * 8 - 1})}), Error);
}

TEST(DistanceBuckets, EqualTransformers) {
  const SafeTensors expected(fixture_path("tiny_mpnet_expected.safetensors"));
  for (const bool causal : {false, true}) {
    const auto wanted = read_ints(expected, causal ? "buckets.causal" : "buckets.both");
    ASSERT_EQ(wanted.size(), 1201U);
    for (std::int64_t distance = -600; distance <= 600; ++distance)
      EXPECT_EQ(DistanceBuckets{.causal = causal}.bucket(distance),
                wanted[static_cast<std::size_t>(distance + 600)])
          << distance << causal;
  }
}

TEST(Linear, WithoutBiasEqualsLibTorch) {
  const at::Tensor x = leaf({7, 4}), weight = leaf({3, 4}), other = leaf({2, 4}),
                   weights = at::randn({7, 5});
  const at::Tensor ours = joined_linear(x, {weight, other}, {}, at::kFloat),
                   expected = at::linear(x, at::cat({weight, other}));
  EXPECT_LE(largest_difference(ours, expected), 1e-6);
  const auto a = torch::autograd::grad({(ours * weights).sum()}, {x, weight, other}),
             b = torch::autograd::grad({(expected * weights).sum()}, {x, weight, other});
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LE(largest_difference(a[i], b[i]), 1e-5) << i;
  EXPECT_LE(largest_difference(mixed_linear(x, weight, {}, at::kFloat), at::linear(x, weight)),
            1e-6);
}

TEST(RmsNorm, EqualsItsFormula) {
  const at::Tensor x = leaf({6, 8}), weight = leaf({8}), weights = at::randn({6, 8});
  const at::Tensor ours = rms_norm(x, weight, 1e-3),
                   expected = weight * x * (x.pow(2).mean(-1, true) + 1e-3).rsqrt();
  EXPECT_LE(largest_difference(ours, expected), 1e-6);
  const auto a = torch::autograd::grad({(ours * weights).sum()}, {x, weight}),
             b = torch::autograd::grad({(expected * weights).sum()}, {x, weight});
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LE(largest_difference(a[i], b[i]), 1e-5) << i;
}

// transformers' T5PreTrainedModel._init_weights with d_model 96, 3 heads of 40, d_ff 200.
TEST(Initialise, DrawsWithT5sDeviations) {
  const T5Sizes sizes{.hidden = 96, .heads = 3, .head_size = 40, .intermediate = 200, .factor = .5};
  const std::vector<std::pair<std::string, double>> expected{
      {"encoder.block.0.layer.0.SelfAttention.q.weight", .5 / std::sqrt(96.0 * 40)},
      {"encoder.block.0.layer.0.SelfAttention.k.weight", .5 / std::sqrt(96.0)},
      {"encoder.block.0.layer.0.SelfAttention.v.weight", .5 / std::sqrt(96.0)},
      {"decoder.block.1.layer.1.EncDecAttention.o.weight", .5 / std::sqrt(120.0)},
      {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
       .5 / std::sqrt(96.0)},
      {"encoder.block.0.layer.1.DenseReluDense.wi_1.weight", .5 / std::sqrt(96.0)},
      {"encoder.block.0.layer.1.DenseReluDense.wo.weight", .5 / std::sqrt(200.0)},
      {"shared.weight", .5},
      {"lm_head.weight", .5}};
  std::vector<NamedParameter> parameters;
  for (const auto& [name, deviation] : expected)
    parameters.push_back({name, at::zeros({150, 160})});
  parameters.push_back({"encoder.final_layer_norm.weight", at::zeros({96})});
  const auto draw = [&](std::uint64_t seed) {
    initialise(
        parameters, [&](const std::string& name) { return sizes.deviation(name); }, seed);
    return parameters[0].value.clone();
  };
  const at::Tensor first = draw(4);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double deviation = parameters[i].value.std().item<double>();
    EXPECT_NEAR(deviation / expected[i].second, 1, .02) << expected[i].first;
    EXPECT_NEAR(parameters[i].value.mean().item<double>() / deviation, 0, .03);
  }
  EXPECT_TRUE(parameters.back().value.eq(1).all().item<bool>());
  EXPECT_TRUE(draw(4).equal(first));
  EXPECT_FALSE(draw(5).equal(first));
}

}  // namespace
}  // namespace gpuhpc
