// ModernBERT beside its transformers fixtures (encoder_test.cpp): the fast path, long documents,
// checkpoints, frozen layers, folders and refusals.
#include <gpuhpc/base/error.hpp>
#include <gpuhpc/io/json.hpp>
#include <gpuhpc/nn/cpu_encoder.hpp>
#include <gpuhpc/nn/folder.hpp>
#include <gpuhpc/nn/sequence_classifier.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <random>
#include <set>

#include "fixture.hpp"

namespace gpuhpc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Documents {
  std::vector<std::int32_t> ids, offsets{0};
  PackedIds view() const { return {ids, {}, offsets, {}}; }
  PackedTokens batch() const { return pack_tokens(ids, offsets, at::kCPU); }
};

Documents ragged(std::initializer_list<std::int64_t> lengths) {
  std::mt19937 random(7);
  Documents all;
  for (const std::int64_t length : lengths) {
    for (std::int64_t i = 0; i < length; ++i)
      all.ids.push_back(static_cast<std::int32_t>(random() % 90));
    all.offsets.push_back(static_cast<std::int32_t>(all.ids.size()));
  }
  return all;
}

// The fixture's weights, with room for longer documents and another window.
Encoder longer(const std::string& name, std::int64_t window) {
  LoadedEncoder loaded = load_encoder(fixture_path(name));
  EncoderConfig config = loaded.encoder.config();
  config.position_rows = 300, config.modern->window = window;
  Encoder encoder(config, at::kCPU);
  const at::NoGradGuard guard;
  for (std::size_t i = 0; i < encoder.parameters().size(); ++i)
    encoder.parameters()[i].value.copy_(loaded.encoder.parameters()[i].value);
  return encoder;
}

at::Tensor vectors(const CpuEncoder& encoder, const Documents& documents, Pooling pooling) {
  const at::Tensor result =
      at::zeros({std::ssize(documents.offsets) - 1, encoder.config().hidden_size});
  const auto workspace = encoder.make_workspace();
  encoder.embed(*workspace, documents.view(), {pooling, false, 300},
                {result.data_ptr<float>(), result.size(0), result.size(1)});
  return result;
}

struct Level {
  CpuPrecision precision;
  kernels::Isa isa;
};
std::vector<Level> levels() {
  std::vector<Level> all;
  for (const kernels::Isa isa : kernels::supported_isas())
    for (const CpuPrecision precision :
         {CpuPrecision::fp32, CpuPrecision::tf32, CpuPrecision::bf16, CpuPrecision::int8})
      all.push_back({precision, isa});
  return all;
}

class ModernLevels : public ::testing::TestWithParam<Level> {};

// Documents on both sides of the windows, of the pieces that local layers are cut into, and of the
// blocks of 32 rows.
TEST_P(ModernLevels, VectorsAreThePlainOperators) {
  const auto [precision, isa] = GetParam();
  const Documents documents = ragged({1, 300, 3, 4, 33, 5, 64, 65, 97, 130, 31, 2});
  for (const auto& [name, window] : std::vector<std::pair<std::string, std::int64_t>>{
           {"tiny_modern", 3}, {"tiny_modern_old", 40}, {"tiny_modern_old", 0}}) {
    const Encoder plain = longer(name, window);
    const CpuEncoder fast(plain, precision, isa);
    const at::NoGradGuard guard;
    for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::max}) {
      const at::Tensor wanted = plain.embed(documents.batch(), {pooling, false, 300}),
                       ours = vectors(fast, documents, pooling);
      if (precision == CpuPrecision::fp32) {
        EXPECT_LE(largest_difference(ours, wanted), 2e-5) << name << " " << to_string(pooling);
      } else if (precision == CpuPrecision::tf32) {
        EXPECT_LE(largest_difference(ours, wanted), 1e-3) << name << " " << to_string(pooling);
      } else {
        EXPECT_GE((unit_rows(ours) * unit_rows(wanted)).sum(1).min().item<double>(),
                  precision == CpuPrecision::bf16 ? .998 : .99)
            << name << " " << to_string(pooling);
      }
    }
  }
}

TEST_P(ModernLevels, NeighboursDoNotMatter) {
  const auto [precision, isa] = GetParam();
  const CpuEncoder fast(longer("tiny_modern_old", 9), precision, isa);
  const Documents all = ragged({70, 5, 129, 31});
  const at::Tensor together = vectors(fast, all, Pooling::mean);
  for (std::size_t b = 0; b + 1 < all.offsets.size(); ++b) {
    const Documents alone{{all.ids.begin() + all.offsets[b], all.ids.begin() + all.offsets[b + 1]},
                          {0, all.offsets[b + 1] - all.offsets[b]}};
    EXPECT_TRUE(
        at::equal(vectors(fast, alone, Pooling::mean)[0], together[static_cast<std::int64_t>(b)]))
        << b;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ModernLevels, testing::ValuesIn(levels()), [](const auto& level) {
  std::string name = std::string(to_string(level.param.precision)) + "_on_" +
                     std::string(to_string(level.param.isa));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Modern, TokenVectorsAfterSomeLayers) {
  Encoder plain = load_encoder(fixture_path("tiny_modern")).encoder;
  const CpuEncoder fast(plain, CpuPrecision::fp32);
  const Documents documents = ragged({40, 3, 17});
  const auto workspace = fast.make_workspace();
  for (const std::int64_t layers : {0, 1, 4, 5}) {
    plain.train_top_layers(5 - layers);
    const at::NoGradGuard guard;
    const at::Tensor wanted = plain.forward_frozen(documents.batch()), ours = wanted * 0;
    fast.hidden(*workspace, documents.view(), layers,
                {ours.data_ptr<float>(), ours.size(0), ours.size(1)});
    EXPECT_LE(largest_difference(ours, wanted), 2e-5) << layers;
  }
}

// Attention by pieces against a mask over all pairs, values and gradients.
TEST(Modern, NearKeysAreThoseInsideTheWindow) {
  const Documents documents = ragged({1, 200, 12, 131});
  const PackedTokens batch = documents.batch();
  const at::Generator random = make_generator(at::kCPU, 3);
  for (const std::int64_t window : {0, 7, 70}) {
    std::vector<at::Tensor> rows[2], results;
    for (int i = 0; i < 3; ++i) {
      rows[0].push_back(at::randn({batch.tokens(), 2, 4}, random).set_requires_grad(true));
      rows[1].push_back(rows[0].back().detach().clone().set_requires_grad(true));
    }
    const std::int64_t reach = batch.max_len;
    at::Tensor bias = at::zeros({2, 2 * reach - 1});
    for (std::int64_t d = 1 - reach; d < reach; ++d)
      if (std::abs(d) > window) bias.select(1, reach - 1 + d).fill_(-INFINITY);
    AttentionOptions near{.divisor = 2, .window = window}, masked{.divisor = 2, .bias = bias};
    const at::Tensor weights = at::randn({batch.tokens(), 8}, random);
    for (const int way : {0, 1}) {
      results.push_back(attention(rows[way][0], rows[way][1], rows[way][2], batch, batch,
                                  way == 0 ? near : masked));
      (results.back() * weights).sum().backward();
    }
    EXPECT_LE(largest_difference(results[0], results[1]), 1e-6) << window;
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_LE(largest_difference(rows[0][i].grad(), rows[1][i].grad()), 2e-6) << window;
  }
}

struct Learnt {
  at::Tensor rows;
  std::vector<at::Tensor> gradients;
};
Learnt learn(Encoder& encoder, std::int64_t layers, const ForwardOptions& options,
             Pooling pooling = Pooling::mean) {
  encoder.train_top_layers(layers);
  for (const NamedParameter& parameter : encoder.parameters())
    parameter.value.mutable_grad() = at::Tensor();
  Learnt learnt;
  learnt.rows = encoder.embed(ragged({40, 1, 23, 9}).batch(), {pooling, false, 48}, options);
  (learnt.rows * at::randn(learnt.rows.sizes(), make_generator(at::kCPU, 5))).sum().backward();
  for (const NamedParameter& parameter : encoder.parameters())
    learnt.gradients.push_back(parameter.value.grad());
  return learnt;
}

TEST(Modern, CheckpointedLayersGiveTheSameBits) {
  Encoder encoder = load_encoder(fixture_path("tiny_modern")).encoder;
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16})
    for (const double rate : {0., .1}) {
      ForwardOptions options;
      options.compute = compute;
      options.hidden_dropout = options.attention_dropout = rate;
      options.generator = make_generator(at::kCPU, 7);
      const Learnt whole = learn(encoder, -1, options);
      options.checkpoint_layers = true;
      options.generator = make_generator(at::kCPU, 7);
      const Learnt again = learn(encoder, -1, options);
      EXPECT_TRUE(at::equal(whole.rows, again.rows));
      for (std::size_t i = 0; i < whole.gradients.size(); ++i)
        EXPECT_TRUE(at::equal(whole.gradients[i], again.gradients[i]))
            << encoder.parameters()[i].name;
    }
}

TEST(Modern, FrozenLayersGetNoGradientAndTheRestTheSame) {
  Encoder encoder = load_encoder(fixture_path("tiny_modern")).encoder;
  const Learnt whole = learn(encoder, -1, {});
  for (const std::int64_t layers : {1, 4, 5}) {
    const Learnt some = learn(encoder, layers, {});
    for (std::size_t i = 0; i < some.gradients.size(); ++i) {
      const std::string& name = encoder.parameters()[i].name;
      const bool learns = name == "final_norm.weight" ||
                          (name.starts_with("layers.") && std::stoll(name.substr(7)) >= 5 - layers);
      ASSERT_EQ(some.gradients[i].defined(), learns) << name << " of " << layers;
      if (learns) {
        EXPECT_LE(largest_difference(some.gradients[i], whole.gradients[i]), 1e-6) << name;
      }
    }
  }
  encoder.train_top_layers(0);
  for (const NamedParameter& parameter : encoder.parameters())
    EXPECT_FALSE(parameter.value.requires_grad()) << parameter.name;
}

TEST(Modern, FirstTokensAloneAreThoseOfAll) {
  Encoder encoder = load_encoder(fixture_path("tiny_modern")).encoder;
  const Learnt few = learn(encoder, -1, {}, Pooling::cls);
  const PackedTokens batch = ragged({40, 1, 23, 9}).batch();
  const at::NoGradGuard guard;
  EXPECT_LE(largest_difference(few.rows, encoder.pool(encoder.forward(batch), batch, Pooling::cls)),
            2e-6);
}

TEST(Modern, NewWeightsAreNotZero) {
  Encoder encoder(load_encoder(fixture_path("tiny_modern")).encoder.config(), at::kCPU);
  encoder.initialise(3);
  for (const auto& [name, value] : encoder.parameters()) {
    if (value.dim() == 1) {
      EXPECT_TRUE(at::equal(value, at::ones(value.sizes()))) << name;
    } else {
      EXPECT_NEAR(value.std().item<double>(), .02, .003) << name;
    }
  }
}

class ModernFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    root = fs::temp_directory_path() / ("gpuhpc_modern_" + std::to_string(::getpid()));
    fs::remove_all(root);
    fs::create_directories(root);
    fs::copy(fixture_path("tiny_modern"), root / "model", fs::copy_options::recursive);
  }
  void TearDown() override { fs::remove_all(root); }
  std::string refusal(const std::string& key, const Json& value) {
    Json config = read_json(fixture_path("tiny_modern") / "config.json");
    config[key] = value;
    write_json(root / "model" / "config.json", config);
    try {
      load_encoder(root / "model");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      return error.what();
    }
    return "(accepted)";
  }
  fs::path root;
};

TEST_F(ModernFolder, BothSpellingsOfTheConfigAreRead) {
  const EncoderConfig fresh = read_encoder_config(fixture_path("tiny_modern") / "config.json"),
                      old = read_encoder_config(fixture_path("tiny_modern_old") / "config.json");
  EXPECT_EQ(fresh.modern->local, (std::vector<bool>{false, true, true, false, true}));
  EXPECT_EQ(fresh.modern->window, 3);
  EXPECT_EQ(fresh.modern->global_theta, 160000);
  EXPECT_EQ(fresh.modern->local_theta, 10000);
  EXPECT_EQ(old.modern->local, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(old.modern->window, 12);
  EXPECT_EQ(old.modern->global_theta, 700);
  EXPECT_EQ(old.modern->local_theta, 30);
  EXPECT_EQ(old.max_tokens(), 48);
  Json one_theta = read_json(fixture_path("tiny_modern_old") / "config.json");
  one_theta["local_rope_theta"] = nullptr;  // transformers 4: that of the global layers
  write_json(root / "one.json", one_theta);
  EXPECT_EQ(read_encoder_config(root / "one.json").modern->local_theta, 700);
  write_json(root / "bare.json", Json{{"model_type", "modernbert"}});
  const EncoderConfig bare = read_encoder_config(root / "bare.json");
  EXPECT_EQ(bare.vocabulary_size, 50368);
  EXPECT_EQ(bare.layers, 22);
  EXPECT_EQ(bare.intermediate_size, 1152);
  EXPECT_EQ(bare.max_tokens(), 8192);
  EXPECT_EQ(bare.modern->window, 64);
  EXPECT_EQ(bare.layer_norm_epsilon, 1e-5);
  EXPECT_TRUE(bare.modern->local[20] && !bare.modern->local[21]);
}

TEST_F(ModernFolder, WhatIsNotSupportedIsNamed) {
  for (const char* key : {"attention_bias", "mlp_bias", "norm_bias"})
    EXPECT_THAT(refusal(key, true), HasSubstr(std::string(key) + "\" is true"));
  EXPECT_THAT(refusal("hidden_activation", "silu"), HasSubstr("\"hidden_activation\" is \"silu\""));
  EXPECT_THAT(refusal("layer_types", {"full_attention"}), HasSubstr("each of the 5 layers"));
  EXPECT_THAT(refusal("rope_scaling", {{"factor", 2}}), HasSubstr("\"rope_scaling\""));
  const Json yarn{{"rope_type", "yarn"}, {"rope_theta", 5.0}};
  EXPECT_THAT(refusal("rope_parameters", {{"sliding_attention", yarn}}),
              HasSubstr("sliding_attention a \"rope_theta\""));
  EXPECT_THAT(refusal("num_attention_heads", 32), HasSubstr("twice the num_attention_heads 32"));
  EXPECT_THAT(refusal("intermediate_size", 47), HasSubstr("mlp.Wi.weight"));
  EXPECT_THROW(SequenceClassifier::load(fixture_path("tiny_modern"), at::kCPU), Error);
}

TEST_F(ModernFolder, IsSavedUnderTransformersNames) {
  const LoadedEncoder loaded = load_encoder(fixture_path("tiny_modern_old"));
  const PackedTokens batch = ragged({40, 2}).batch();
  save_encoder_folder(root / "saved", loaded.encoder, loaded.model.embedding, loaded.model);
  EXPECT_EQ(names_in(root / "saved"), names_in(fixture_path("tiny_modern_old")));
  EXPECT_TRUE(at::equal(load_encoder(root / "saved").encoder.forward(batch),
                        loaded.encoder.forward(batch)));
  // The heads of masked-language models and classifiers are left aside.
  EXPECT_EQ(load_encoder(fixture_path("masked_modern")).encoder.parameters().size(), 14U);
}

}  // namespace
}  // namespace gpuhpc
