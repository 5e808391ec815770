// Attention of padded groups, which GPUs compute: on the processor, sequence by sequence against
// LibTorch's scaled_dot_product_attention and, for DeBERTa's scores, against the plain operators,
// whose layers equal transformers' (sequence_classifier_test.cpp).
#include <gpuhpc/nn/padded_attention.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "../../src/nn/cpu_layer.hpp"
#include "../../src/nn/plain_layer.hpp"
#include "fixture.hpp"

namespace gpuhpc {
namespace {

using testing::ElementsAre;

PackedOffsets offsets_of(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> offsets{0};
  for (const std::int32_t length : lengths) offsets.push_back(offsets.back() + length);
  return pack_tokens(std::vector<std::int32_t>(static_cast<std::size_t>(offsets.back())), offsets,
                     at::kCPU);
}

at::Tensor drawn(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, make_generator(at::kCPU, seed)).mul_(.8).set_requires_grad(true);
}

using Inputs = std::vector<at::Tensor>;

// The output and the gradients of a weighted sum of it.
std::vector<at::Tensor> outcome(const Inputs& inputs, const at::Tensor& output) {
  for (const at::Tensor& x : inputs) x.mutable_grad() = at::Tensor();
  (output * at::randn(output.sizes(), make_generator(at::kCPU, 77))).sum().backward();
  std::vector<at::Tensor> result{output.detach()};
  for (const at::Tensor& x : inputs) result.push_back(x.grad().clone());
  return result;
}

void expect_close(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& wanted) {
  ASSERT_EQ(ours.size(), wanted.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_LE(largest_difference(ours[i], wanted[i]) / wanted[i].abs().max().item<double>(), 2e-5)
        << (i == 0 ? "output" : "gradient ") << i;
}

// Sequence by sequence; the bias written out for each pair of places.
at::Tensor reference(const Inputs& x, const PackedOffsets& q_offsets,
                     const PackedOffsets& k_offsets, const AttentionOptions& options) {
  const auto queries = x[0].split_with_sizes(q_offsets.lengths()),
             keys = x[1].split_with_sizes(k_offsets.lengths()),
             values = x[2].split_with_sizes(k_offsets.lengths());
  std::vector<at::Tensor> parts;
  for (std::size_t b = 0; b < queries.size(); ++b) {
    std::optional<at::Tensor> bias;
    if (options.bias.defined()) {
      std::vector<std::int64_t> columns;
      const std::int64_t reach = (options.bias.size(1) + 1) / 2;
      for (std::int64_t i = 0; i < queries[b].size(0); ++i)
        for (std::int64_t j = 0; j < keys[b].size(0); ++j) columns.push_back(reach - 1 + j - i);
      bias = options.bias.index_select(1, at::tensor(columns))
                 .view({x[0].size(1), queries[b].size(0), keys[b].size(0)});
      if (options.causal)
        bias = bias->masked_fill(at::ones({queries[b].size(0), keys[b].size(0)}, at::kBool).triu(1),
                                 -INFINITY);
    }
    parts.push_back(at::scaled_dot_product_attention(queries[b].transpose(0, 1),
                                                     keys[b].transpose(0, 1),
                                                     values[b].transpose(0, 1), bias, 0,
                                                     options.causal && !bias, 1 / options.divisor)
                        .transpose(0, 1)
                        .flatten(1));
  }
  return at::cat(parts);
}

TEST(PaddedAttention, OfSequencesOverThemselvesEqualsLibTorch) {
  const PackedOffsets offsets = offsets_of({3, 40, 1, 37, 38, 5, 40});
  for (const bool causal : {false, true})
    for (const bool biased : {false, true}) {
      Inputs x{drawn({164, 3, 10}, 1), drawn({164, 3, 10}, 2), drawn({164, 3, 7}, 3)};
      AttentionOptions options{.divisor = 2.7, .causal = causal};
      if (biased) x.push_back(options.bias = drawn({3, 2 * 44 - 1}, 4));
      expect_close(outcome(x, padded_attention(x[0], x[1], x[2], offsets, offsets, options)),
                   outcome(x, reference(x, offsets, offsets, options)));
    }
}

TEST(PaddedAttention, OverOtherSequencesEqualsLibTorch) {
  const PackedOffsets queries = offsets_of({3, 1, 20, 9, 4}),
                      keys = offsets_of({50, 2, 33, 70, 49});
  const Inputs x{drawn({37, 2, 12}, 1), drawn({204, 2, 12}, 2), drawn({204, 2, 12}, 3)};
  const AttentionOptions options{.divisor = 3};
  expect_close(outcome(x, padded_attention(x[0], x[1], x[2], queries, keys, options)),
               outcome(x, reference(x, queries, keys, options)));
}

// Columns of one tensor, as a layer's joined projection has them.
TEST(PaddedAttention, ReadsColumnsOfWiderRows) {
  const PackedOffsets offsets = offsets_of({6, 9, 8});
  const at::Tensor qkv = drawn({23, 3 * 2 * 12}, 5);
  const auto parts = qkv.view({23, 3, 2, 12}).unbind(1);
  const AttentionOptions options{.divisor = 1.9};
  expect_close(
      outcome({qkv}, padded_attention(parts[0], parts[1], parts[2], offsets, offsets, options)),
      outcome({qkv}, reference({parts[0], parts[1], parts[2]}, offsets, offsets, options)));
}

// DeBERTa's scores of a group at once, and of each sequence alone (attention() on a processor).
TEST(PaddedAttention, ComputesDisentangledScoresOfAGroup) {
  const PackedOffsets offsets = offsets_of({11, 30, 2, 29, 28});
  for (const std::int64_t buckets : {0, 6}) {
    EncoderConfig config;
    config.hidden_size = 24, config.heads = 3;
    config.relative =
        RelativeAttention{.farthest = 16, .buckets = buckets, .shared_projections = true};
    std::vector<at::Tensor> parameters(static_cast<std::size_t>(position_vectors) + 1);
    for (const LayerParameter weight : {query_weight, key_weight}) {
      const auto place = static_cast<std::size_t>(weight);
      parameters[place] = drawn({24, 24}, 10 + place),
      parameters[place + 1] = drawn({24}, 30 + place);
    }
    parameters[position_vectors] = drawn({config.relative->rows(), 24}, 50);
    AttentionOptions options{.divisor = 4.9};
    options.scores = disentangled_scores(config, parameters, {}, offsets.max_len, options.divisor);
    const Inputs x{drawn({100, 3, 8}, 1), drawn({100, 3, 8}, 2), drawn({100, 3, 8}, 3)};
    Inputs learnt = x;
    learnt.insert(learnt.end(),
                  {parameters[position_vectors], parameters[query_weight], parameters[key_weight]});
    const auto ours =
        outcome(learnt, padded_attention(x[0], x[1], x[2], offsets, offsets, options));
    options.scores = disentangled_scores(config, parameters, {}, offsets.max_len, options.divisor);
    expect_close(ours, outcome(learnt, attention(x[0], x[1], x[2], offsets, offsets, options)));
  }
}

TEST(PaddedAttention, DropsTheShareThatWasAsked) {
  const PackedOffsets offsets = offsets_of(std::vector<std::int32_t>(400, 1));
  const at::Tensor ones = at::ones({400, 5, 8});
  AttentionOptions options{.dropout = .2, .generator = make_generator(at::kCPU, 6)};
  const at::Tensor sums =
      padded_attention(ones, ones, ones, offsets, offsets, options).view({400, 5, 8}).select(2, 0);
  EXPECT_NEAR((sums == 0).to(at::kFloat).mean().item<double>(), .2, .03);
  EXPECT_NEAR(sums.max().item<double>(), 1.25, 1e-5);
}

// The scores of fp16 end at 65,504: a large product must be divided before it is one.
TEST(PaddedAttention, DividesQueriesBeforeItMultiplies) {
  const PackedOffsets offsets = offsets_of({7, 7});
  const at::Tensor q = drawn({14, 2, 8}, 1), k = drawn({14, 2, 8}, 2), v = drawn({14, 2, 8}, 3);
  AttentionOptions options{.divisor = 6.5};
  int calls = 0;
  options.scores = [&](const at::Tensor& products, const at::Tensor& queries,
                       const at::Tensor& keys) {
    ++calls;
    const at::Tensor all = q.view({2, 7, 2, 8}).transpose(1, 2) / 6.5;
    EXPECT_LE(largest_difference(queries, queries.dim() == 4 ? all : all[calls % 2]), 1e-6);
    EXPECT_LE(largest_difference(products, (queries.unsqueeze(-2) * keys.unsqueeze(-3)).sum(-1)),
              1e-5);
    return products;
  };
  padded_attention(q, k, v, offsets, offsets, options);
  EXPECT_EQ(calls, 1);
  attention(q, k, v, offsets, offsets, options);  // sequence by sequence
  EXPECT_EQ(calls, 3);
}

MATCHER_P3(GroupIs, sequences, queries, keys, "") {
  return arg.sequences == std::vector<std::int64_t>(sequences) && arg.queries == queries &&
         arg.keys == keys;
}

TEST(GroupsOfLikeLength, WasteAThirdAtMost) {
  const auto of = [](const std::vector<std::int32_t>& lengths) {
    return offsets_of(lengths).offsets;
  };
  using Numbers = std::vector<std::int64_t>;
  // 2 x 10 x 10 = 200 scores of which 181 are wanted; with a third of 4 it would be 300 for 197.
  EXPECT_THAT(groups_of_like_length(of({4, 10, 9}), of({4, 10, 9})),
              ElementsAre(GroupIs(Numbers{1, 2}, 10, 10), GroupIs(Numbers{0}, 4, 4)));
  // Queries of other lengths: 2 x 6 x 7 for 6 x 7 + 3 x 6 is 84 for 60; 2 x 6 x 7 for 42 + 6 is
  // not.
  EXPECT_THAT(groups_of_like_length(of({3, 6}), of({6, 7})),
              ElementsAre(GroupIs(Numbers{1, 0}, 6, 7)));
  EXPECT_THAT(groups_of_like_length(of({1, 6}), of({6, 7})),
              ElementsAre(GroupIs(Numbers{1}, 6, 7), GroupIs(Numbers{0}, 1, 6)));
  // 16 of 512 x 512 are 4 million; one alone may have more.
  std::vector<std::int64_t> sizes;
  for (const PaddedGroup& group : groups_of_like_length(of(std::vector<std::int32_t>(20, 512)),
                                                        of(std::vector<std::int32_t>(20, 512))))
    sizes.push_back(std::ssize(group.sequences));
  EXPECT_THAT(sizes, ElementsAre(16, 4));
  EXPECT_EQ(groups_of_like_length(of({3000, 3000}), of({3000, 3000})).size(), 2U);
}

}  // namespace
}  // namespace gpuhpc
