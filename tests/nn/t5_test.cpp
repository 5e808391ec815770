// T5 and mT5 against transformers.
#include <gpuhpc/nn/t5.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include "../io/scratch_folder.hpp"
#include "fixture.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/nn/t5_decoder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

PackedTokens read_packed(const SafeTensors& file, const std::string& name) {
  return pack_tokens(read_ints(file, name + "_ids"), read_ints(file, name + "_offsets"), at::kCPU);
}

class T5Models : public ::testing::TestWithParam<const char*> {
 protected:
  std::string name = GetParam();
  SafeTensors expected{fixture_path(name + "_expected.safetensors")};
  T5 model = load_t5(fixture_path(name)).model;
  PackedTokens source = read_packed(expected, "source"), targets = read_packed(expected, "target");
};

void expect_gradients(const T5& model, const SafeTensors& expected) {
  for (const NamedParameter& parameter : model.parameters()) {
    ASSERT_TRUE(parameter.value.grad().defined()) << parameter.name;
    const at::Tensor wanted = read_floats(expected, "gradient." + parameter.name);
    EXPECT_LE(largest_difference(parameter.value.grad().to_dense(), wanted),
              1e-5 + 1e-5 * wanted.abs().max().item<double>())
        << parameter.name;
  }
}

TEST_P(T5Models, LossAndGradientsEqualTransformers) {
  model.learn_everything();
  const at::Tensor plain = model.loss(source, targets, 0);
  EXPECT_NEAR(plain.item<double>() / read_floats(expected, "loss").item<double>(), 1, 1e-6);
  const at::Tensor loss = model.loss(source, targets, .13);
  EXPECT_NEAR(loss.item<double>() / read_floats(expected, "smoothed").item<double>(), 1, 1e-6);
  loss.backward();
  expect_gradients(model, expected);
}

TEST_P(T5Models, LogitsEqualTransformers) {
  PackedTokens inputs = targets;
  std::vector<std::int32_t> ids = read_ints(expected, "target_ids");
  for (std::size_t i = ids.size(); i-- > 1;) ids[i] = ids[i - 1];
  for (const std::int32_t first : std::span(targets.offsets).first(4))
    ids[static_cast<std::size_t>(first)] = 0;
  inputs = pack_tokens(ids, targets.offsets, at::kCPU);
  const at::Tensor wanted = read_floats(expected, "logits");
  EXPECT_LE(largest_difference(model.logits(inputs, model.encode(source), source), wanted),
            1e-5 * wanted.abs().max().item<double>());
}

// All but the bias tables, whose gradients are sums over layers: their order differs.
TEST_P(T5Models, CheckpointedLayersGiveTheSameBitsWithDropout) {
  std::vector<at::Tensor> gradients[2];
  at::Tensor losses[2];
  for (const bool checkpoint : {false, true}) {
    T5 learner = load_t5(fixture_path(name)).model;
    learner.learn_everything();
    ForwardOptions options;
    options.checkpoint_layers = checkpoint;
    options.hidden_dropout = .3, options.attention_dropout = .2;
    options.generator = make_generator(at::kCPU, 9);
    losses[checkpoint] = learner.loss(source, targets, 0, options);
    losses[checkpoint].backward();
    for (const NamedParameter& parameter : learner.parameters())
      gradients[checkpoint].push_back(parameter.value.grad().to_dense());
  }
  EXPECT_TRUE(losses[0].equal(losses[1]));
  EXPECT_NE(losses[0].item<double>(), model.loss(source, targets, 0).item<double>());
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_LE(largest_difference(gradients[0][i], gradients[1][i]),
              i == 1 || i == 2 ? 1e-6 * gradients[0][i].abs().max().item<double>() : 0)
        << model.parameters()[i].name;
}

TEST_P(T5Models, AreSavedUnderTransformersNames) {
  const ScratchFolder scratch;
  const fs::path folder = scratch / "model";
  save_t5(folder, model, fixture_path(name));
  EXPECT_EQ(names_in(folder), names_in(fixture_path(name)));
  const T5 again = load_t5(folder).model;
  EXPECT_TRUE(again.loss(source, targets, 0).equal(model.loss(source, targets, 0)));
}

INSTANTIATE_TEST_SUITE_P(Kinds, T5Models,
                         ::testing::Values("t5_plain", "t5_gated", "t5_multilingual"));

// fp16 products leave the range of fp16 in the feed-forward's inputs; its second product is fp32.
TEST(T5Precision, HalfPrecisionSurvivesLargeActivations) {
  const SafeTensors expected(fixture_path("t5_gated_expected.safetensors"));
  const T5 model = load_t5(fixture_path("t5_gated")).model;
  const at::NoGradGuard no_grad;
  for (const NamedParameter& parameter : model.parameters())
    if (parameter.name.find("wi_") != std::string::npos) parameter.value.mul_(300);
  ForwardOptions half;
  half.compute = at::kHalf;
  const at::Tensor loss =
      model.loss(read_packed(expected, "source"), read_packed(expected, "target"), 0, half);
  EXPECT_TRUE(std::isfinite(loss.item<double>()));
}

// T5Block clamps to torch.finfo(torch.float16).max - 1000 = 64504; here nothing but infinities.
TEST(T5Precision, InfiniteSumsInHalfPrecisionAreTransformersLargestNumber) {
  const float inf = std::numeric_limits<float>::infinity();
  const at::Tensor hidden = at::tensor({1.f, -2.f, 70000.f, 3.f}).set_requires_grad(true),
                   change = at::tensor({inf, -inf, 5.f, std::nanf("")}),
                   sum = t5_sum(hidden, change, at::kHalf);
  EXPECT_TRUE(sum.narrow(0, 0, 3).equal(at::tensor({64504.f, -64504.f, 70005.f})));
  EXPECT_TRUE(std::isnan(sum[3].item<float>()));  // no overflow: nothing hides it
  sum.narrow(0, 0, 3).sum().backward();
  EXPECT_TRUE(hidden.grad().narrow(0, 0, 3).equal(at::tensor({0.f, 0.f, 1.f})));
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16})
    EXPECT_EQ(t5_sum(hidden, change, compute)[0].item<float>(), inf);
}

// What attention adds leaves the range of fp16, in the encoder, the decoder, and token by token.
TEST(T5Precision, HalfPrecisionSurvivesOverflowsOfAttention) {
  const SafeTensors expected(fixture_path("t5_gated_expected.safetensors"));
  T5 model = load_t5(fixture_path("t5_gated")).model;
  const PackedTokens source = read_packed(expected, "source"),
                     targets = read_packed(expected, "target");
  {
    const at::NoGradGuard no_grad;
    for (const NamedParameter& parameter : model.parameters()) {
      if (parameter.name.find("Attention.v.") != std::string::npos) parameter.value.mul_(100);
      if (parameter.name.find("Attention.o.") != std::string::npos)
        parameter.value.mul_(3e4 / parameter.value.abs().max().item<double>());
    }
  }
  model.learn_everything();
  ForwardOptions half;
  half.compute = at::kHalf;
  for (const double dropout : {0., .1}) {
    half.hidden_dropout = dropout, half.generator = make_generator(at::kCPU, 3);
    const at::Tensor loss = model.loss(source, targets, 0, half);
    EXPECT_TRUE(std::isfinite(loss.item<double>())) << dropout;
    loss.backward();
    for (const NamedParameter& parameter : model.parameters())
      EXPECT_TRUE(at::isfinite(parameter.value.grad().to_dense()).all().item<bool>())
          << parameter.name << " " << dropout;
  }
  half.hidden_dropout = 0;
  const T5Decoder decoder(model, at::kHalf);
  T5Decoder::Rows rows = decoder.begin(model.encode(source, half), source, 4);
  const std::vector<std::int32_t> starts(rows.sources.size(), model.config().start);
  EXPECT_TRUE(at::isfinite(decoder.step(rows, starts)).all().item<bool>());
}

T5Config published(nlohmann::ordered_json changes, const std::string& size = "small") {
  nlohmann::ordered_json config = new_t5_config(size, 32128);
  for (const auto& [key, value] : changes.items()) config[key] = value;
  const ScratchFolder folder;
  write_json(folder / "config.json", config);
  return read_t5_config(folder / "config.json");
}

// What transformers counts for the published models, without the tied tables twice.
TEST(T5Sizes, HaveTheParametersOfThePublishedModels) {
  EXPECT_EQ(t5_parameter_count(published({})), 60506624);
  EXPECT_EQ(t5_parameter_count(published({}, "base")), 222903552);
  const nlohmann::ordered_json v11{
      {"d_ff", 2048}, {"feed_forward_proj", "gated-gelu"}, {"tie_word_embeddings", false}};
  EXPECT_EQ(t5_parameter_count(published(v11, "base")), 247577856);
  nlohmann::ordered_json mt5 = v11;
  mt5["model_type"] = "mt5", mt5["vocab_size"] = 250112;
  EXPECT_EQ(t5_parameter_count(published(mt5, "base")), 582401280);
  for (const auto& [key, value] :
       {std::pair{"d_model", 1024}, std::pair{"d_ff", 2816}, std::pair{"num_layers", 24},
        std::pair{"num_decoder_layers", 24}, std::pair{"num_heads", 16}})
    mt5[key] = value;
  EXPECT_EQ(t5_parameter_count(published(mt5)), 1229581312);
}

TEST(T5Configs, AreRefusedByTheKeyThatIsNotSupported) {
  const auto refusal = [](nlohmann::ordered_json changes) -> std::string {
    try {
      published(std::move(changes));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({{"model_type", "umt5"}}), HasSubstr("\"umt5\" is not supported"));
  EXPECT_THAT(refusal({{"feed_forward_proj", "gated-silu"}}), HasSubstr("\"gated-silu\""));
  EXPECT_THAT(refusal({{"d_kv", "64"}}), HasSubstr("\"d_kv\" must be a whole number"));
  EXPECT_THAT(refusal({{"relative_attention_max_distance", 16}}),
              HasSubstr("does not fit \"relative_attention_num_buckets\" 32"));
}

TEST(T5Folders, WithForeignOrMissingWeightsAreRefused) {
  const ScratchFolder scratch;
  const fs::path folder = scratch / "model";
  fs::copy(fixture_path("t5_plain"), folder);
  nlohmann::ordered_json config =
      nlohmann::ordered_json::parse(read_text_file(folder / "config.json"));
  const auto refusal = [&](const char* key, const nlohmann::ordered_json& value) -> std::string {
    nlohmann::ordered_json changed = config;
    changed[key] = value;
    write_json(folder / "config.json", changed);
    try {
      load_t5(folder);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("num_layers", 3), HasSubstr("\"encoder.block.2.layer.0."));
  EXPECT_THAT(refusal("num_decoder_layers", 2),
              HasSubstr("has no place in a t5 model of 2 layers"));
  EXPECT_THAT(refusal("d_ff", 31), HasSubstr("has shape (30, 20)"));
}

}  // namespace
}  // namespace gpuhpc
