// The encoder against transformers and sentence-transformers, and against itself.
#include <gpuhpc/base/error.hpp>
#include <gpuhpc/kernels/isa.hpp>
#include <gpuhpc/nn/encoder.hpp>
#include <gpuhpc/nn/folder.hpp>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <span>

#include "fixture.hpp"

namespace gpuhpc {
namespace {

class TinyEncoder : public ::testing::TestWithParam<const char*> {
 protected:
  std::string name = GetParam();
  SafeTensors expected{fixture_path(name + "_expected.safetensors")};
  LoadedEncoder loaded = load_encoder(fixture_path(name));
  PackedTokens batch = read_batch(expected, expected.find("segment_ids") != nullptr);
};

TEST_P(TinyEncoder, ForwardEqualsTransformers) {
  const at::Tensor hidden = loaded.encoder.forward(batch);
  EXPECT_LE(largest_difference(hidden, read_floats(expected, "hidden")), 1e-5);
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::max, Pooling::pooler}) {
    if (pooling == Pooling::pooler && !loaded.encoder.has_pooler()) {
      EXPECT_THROW(loaded.encoder.pool(hidden, batch, pooling), Error);
      continue;
    }
    const at::Tensor rows = loaded.encoder.pool(hidden, batch, pooling);
    EXPECT_LE(
        largest_difference(rows, read_floats(expected, "pool." + std::string(to_string(pooling)))),
        1e-5)
        << to_string(pooling);
  }
}

TEST_P(TinyEncoder, GradientsEqualPyTorch) {
  loaded.encoder.train_top_layers(-1);
  const at::Tensor rows = loaded.encoder.embed(batch, {Pooling::mean, true, 24});
  (rows * read_floats(expected, "loss_weights")).sum().backward();
  std::size_t compared = 0;
  for (const NamedParameter& parameter : loaded.encoder.parameters()) {
    if (expected.find("gradient." + parameter.name) == nullptr) continue;
    const at::Tensor wanted = read_floats(expected, "gradient." + parameter.name);
    ASSERT_TRUE(parameter.value.grad().defined()) << parameter.name;
    // A key bias has gradient 0 up to rounding: softmax does not change when all scores shift.
    EXPECT_LE(largest_difference(parameter.value.grad(), wanted),
              1e-5 + 1e-5 * wanted.abs().max().item<double>())
        << parameter.name;
    ++compared;
  }
  EXPECT_EQ(compared, loaded.encoder.parameters().size() - (loaded.encoder.has_pooler() ? 2 : 0));
}

TEST_P(TinyEncoder, HalfPrecisionStaysClose) {
  ForwardOptions options;
  options.compute = at::kBFloat16;
  loaded.encoder.train_top_layers(-1);
  const at::Tensor rows = loaded.encoder.embed(batch, {Pooling::mean, true, 24}, options);
  EXPECT_EQ(rows.scalar_type(), at::kFloat);
  const at::Tensor cosine = (rows * unit_rows(read_floats(expected, "pool.mean"))).sum(1);
  EXPECT_GE(cosine.min().item<double>(), 0.999);
  (rows * read_floats(expected, "loss_weights")).sum().backward();
  double of_product = 0, of_ours = 0, of_wanted = 0;
  for (const NamedParameter& parameter : loaded.encoder.parameters()) {
    if (expected.find("gradient." + parameter.name) == nullptr) continue;
    const at::Tensor wanted = read_floats(expected, "gradient." + parameter.name);
    const at::Tensor& ours = parameter.value.grad();
    EXPECT_EQ(ours.scalar_type(), at::kFloat);
    of_product += (ours * wanted).sum().item<double>();
    of_ours += (ours * ours).sum().item<double>();
    of_wanted += (wanted * wanted).sum().item<double>();
  }
  EXPECT_GE(of_product / std::sqrt(of_ours * of_wanted), 0.999);
}

INSTANTIATE_TEST_SUITE_P(Models, TinyEncoder,
                         ::testing::Values("tiny_bert", "tiny_bert_tanh", "tiny_roberta",
                                           "tiny_xlm_roberta", "tiny_mpnet", "tiny_mpnet_narrow",
                                           "tiny_modern", "tiny_modern_old"),
                         [](const auto& which) { return std::string(which.param); });

// Four Dense modules, one behind a Normalize: data_tools/fixtures/make_modules.py.
TEST(DenseModules, VectorsAndGradientsEqualSentenceTransformers) {
  const SafeTensors expected(fixture_path("dense_bert_expected.safetensors"));
  LoadedEncoder loaded = load_encoder(fixture_path("dense_bert"));
  loaded.encoder.train_top_layers(-1);
  const at::Tensor vectors = loaded.encoder.embed(read_batch(expected), loaded.model.embedding);
  EXPECT_LE(largest_difference(vectors, read_floats(expected, "vectors")), 1e-5);
  (vectors * read_floats(expected, "loss_weights")).sum().backward();
  std::size_t dense = 0;
  for (const auto& [name, value] : loaded.encoder.parameters()) {
    if (name.starts_with("pooler.")) continue;
    const at::Tensor wanted = read_floats(expected, "gradient." + name);
    EXPECT_LE(largest_difference(value.grad(), wanted),
              1e-5 + 1e-5 * wanted.abs().max().item<double>())
        << name;
    if (name.starts_with("dense.")) ++dense;
  }
  EXPECT_EQ(dense, 7U);
}

// The last token's vector: data_tools/fixtures/make_prompts.py.
TEST(LastToken, VectorsAndGradientsEqualSentenceTransformers) {
  const SafeTensors expected(fixture_path("prompted_bert_expected.safetensors"));
  LoadedEncoder loaded = load_encoder(fixture_path("prompted_bert"));
  ASSERT_EQ(loaded.model.embedding.pooling, Pooling::last);
  loaded.encoder.train_top_layers(-1);
  const at::Tensor vectors = loaded.encoder.embed(read_batch(expected), loaded.model.embedding);
  EXPECT_LE(largest_difference(vectors, read_floats(expected, "vectors")), 1e-5);
  (vectors * read_floats(expected, "loss_weights")).sum().backward();
  for (const auto& [name, value] : loaded.encoder.parameters()) {
    if (name.starts_with("pooler.")) continue;
    const at::Tensor wanted = read_floats(expected, "gradient." + name);
    EXPECT_LE(largest_difference(value.grad(), wanted),
              1e-5 + 1e-5 * wanted.abs().max().item<double>())
        << name;
  }
}

class Bert : public ::testing::Test {
 protected:
  SafeTensors expected{fixture_path("tiny_bert_expected.safetensors")};
  LoadedEncoder loaded = load_encoder(fixture_path("tiny_bert"));
  Encoder& encoder = loaded.encoder;
  PackedTokens batch = read_batch(expected, true);
  std::vector<std::int32_t> ids = read_ints(expected, "token_ids");
};

TEST_F(Bert, DocumentsDoNotSeeTheirNeighbours) {
  batch = read_batch(expected);
  const at::Tensor together = encoder.embed(batch, loaded.model.embedding);
  for (std::int64_t b = batch.documents() - 1; b >= 0; --b) {
    const auto start = static_cast<std::size_t>(batch.offsets[static_cast<std::size_t>(b)]);
    const std::int32_t length =
        batch.offsets[static_cast<std::size_t>(b) + 1] - static_cast<std::int32_t>(start);
    const std::vector<std::int32_t> offsets{0, length};
    const PackedTokens alone = pack_tokens(
        std::span(ids).subspan(start, static_cast<std::size_t>(length)), offsets, at::kCPU);
    EXPECT_LE(largest_difference(encoder.embed(alone, loaded.model.embedding)[0], together[b]),
              1e-6);
  }
}

// transformers' _init_weights: padding rows of the tables are zeros.
TEST(NewEncoder, IsDrawnAsTransformersDrawsIt) {
  EncoderConfig config = read_encoder_config(fixture_path("tiny_mpnet") / "config.json");
  config.hidden_size = 160, config.intermediate_size = 300, config.initializer_range = .03;
  config.vocabulary_size = 500;
  Encoder encoder(config, at::kCPU);
  encoder.initialise(7);
  for (const auto& [name, value] : encoder.parameters()) {
    if (value.dim() == 1) {
      EXPECT_TRUE(value.eq(name.ends_with("LayerNorm.weight") ? 1 : 0).all().item<bool>()) << name;
    } else if (value.numel() > 10000) {
      EXPECT_NEAR(value.std().item<double>() / .03, 1, .02) << name;
    } else {
      EXPECT_GT(value.abs().max().item<double>(), .03) << name;
    }
  }
  for (const char* table : {"word", "position"}) {
    const at::Tensor& rows =
        encoder.parameter("embeddings." + std::string(table) + "_embeddings.weight");
    EXPECT_EQ(rows[1].abs().max().item<double>(), 0) << table;
    EXPECT_GT(rows[0].abs().max().item<double>(), 0) << table;
  }
  Encoder other(config, at::kCPU);
  other.initialise(8);
  EXPECT_FALSE(at::equal(other.parameters()[0].value, encoder.parameters()[0].value));
}

TEST(ChooseProducts, SixteenBitsAddUpInFullPrecisionOnGpus) {
  choose_products(at::Device(at::kCUDA, 0), ForwardOptions());
  const at::Context& settings = at::globalContext();
  constexpr auto in_fp32 = at::CuBLASReductionOption::DisallowReducedPrecisionAllowSplitK;
  EXPECT_EQ(settings.allowFP16ReductionCuBLAS(), in_fp32);
  EXPECT_EQ(settings.allowBF16ReductionCuBLAS(), in_fp32);
}

// What a training computes in full precision must not take over the choice of an encoding before
// it.
TEST(ChooseProducts, Tf32IsChosenAnew) {
  ForwardOptions rounded;
  rounded.tf32 = true;
  for (const bool tf32 : {true, false}) {
    choose_products(at::Device(at::kCUDA, 0), tf32 ? rounded : ForwardOptions());
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), tf32);
  }
}

TEST_F(Bert, SameBatchGivesSameBits) {
  EXPECT_TRUE(at::equal(encoder.forward(batch), encoder.forward(batch)));
}

TEST_F(Bert, FrozenLayersGetNoGradientAndTheRestTheSame) {
  encoder.train_top_layers(-1);
  const at::Tensor weights = read_floats(expected, "loss_weights");
  (encoder.embed(batch, loaded.model.embedding) * weights).sum().backward();
  const at::Tensor whole = encoder.parameter("encoder.layer.1.output.dense.weight").grad().clone();
  LoadedEncoder other = load_encoder(fixture_path("tiny_bert"));
  other.encoder.train_top_layers(1);
  EXPECT_EQ(other.encoder.first_trained_layer(), 1);
  (other.encoder.embed(batch, loaded.model.embedding) * weights).sum().backward();
  for (const NamedParameter& parameter : other.encoder.parameters()) {
    const bool learns = parameter.name.starts_with("encoder.layer.1.");
    EXPECT_EQ(parameter.value.grad().defined(), learns) << parameter.name;
  }
  EXPECT_LE(largest_difference(
                other.encoder.parameter("encoder.layer.1.output.dense.weight").grad(), whole),
            1e-7);
}

TEST_F(Bert, ParametersMayLiveInAnArena) {
  const at::Tensor before = encoder.forward(batch);
  encoder.train_top_layers(-1);
  std::int64_t total = 0;
  for (const NamedParameter& parameter : encoder.parameters()) total += parameter.value.numel();
  const at::Tensor arena = at::zeros({total});
  std::int64_t start = 0;
  for (std::size_t i = 0; i < encoder.parameters().size(); ++i) {
    const at::Tensor value = encoder.parameters()[i].value;
    at::Tensor view = arena.narrow(0, start, value.numel()).view(value.sizes());
    view.copy_(value.detach());
    encoder.rebind(i, view);
    start += value.numel();
  }
  EXPECT_LE(largest_difference(encoder.forward(batch), before), 1e-6);
  EXPECT_TRUE(encoder.parameter("embeddings.LayerNorm.weight").requires_grad());
  arena.zero_();
  EXPECT_EQ(encoder.forward(batch).abs().max().item<double>(), 0);
  EXPECT_THROW(encoder.rebind(0, at::zeros({3})), Error);
}

TEST_F(Bert, DropoutIsSeededAndKeepsTheMean) {
  const auto run = [&](std::uint64_t seed) {
    ForwardOptions options;
    options.hidden_dropout = options.attention_dropout = 0.1;
    options.generator = make_generator(at::kCPU, seed);
    return encoder.forward(batch, options).detach();
  };
  EXPECT_TRUE(at::equal(run(3), run(3)));
  EXPECT_GT(largest_difference(run(3), run(4)), 1e-3);
  at::Tensor sum = at::zeros_like(run(0));
  for (std::uint64_t seed = 0; seed < 200; ++seed) sum += run(seed);
  const at::Tensor clean = read_floats(expected, "hidden");
  EXPECT_LT((sum / 200 - clean).abs().mean().item<double>(),
            0.1 * clean.abs().mean().item<double>());
  ForwardOptions unseeded;
  unseeded.hidden_dropout = 0.1;
  EXPECT_THROW(encoder.forward(batch, unseeded), Error);
}

TEST_F(Bert, AttentionDropoutPathWithoutDropsIsTheKernel) {
  ForwardOptions options;
  options.plain_layers = true;
  options.attention_dropout = 1e-300;  // drops nothing
  options.generator = make_generator(at::kCPU, 1);
  EXPECT_LE(largest_difference(encoder.forward(batch, options), read_floats(expected, "hidden")),
            1e-5);
}

TEST_F(Bert, RefusesWhatDoesNotFit) {
  const std::vector<std::int32_t> long_document(25, 5), offsets{0, 25}, strange{5, 90, 6},
      three{0, 3}, gap{0, 2, 2, 3};
  EXPECT_THROW(encoder.forward(pack_tokens(long_document, offsets, at::kCPU)), Error);
  EXPECT_THROW(encoder.forward(pack_tokens(strange, three, at::kCPU)), Error);
  EXPECT_THROW(pack_tokens(strange, gap, at::kCPU), Error);
  EXPECT_THROW(pack_tokens(strange, offsets, at::kCPU), Error);
}

TEST(MiniLm, EmbeddingsEqualSentenceTransformers) {
  const SafeTensors expected(fixture_path("minilm_expected.safetensors"));
  const LoadedEncoder loaded = load_encoder(minilm_folder);
  EXPECT_TRUE(loaded.model.embedding.normalise);
  EXPECT_EQ(loaded.model.embedding.max_tokens, 256);
  const PackedTokens batch = read_batch(expected);
  const at::Tensor wanted = read_floats(expected, "vectors");
  EXPECT_LE(largest_difference(loaded.encoder.embed(batch, loaded.model.embedding), wanted), 2e-5);
  ForwardOptions options;
  options.compute = at::kBFloat16;
  const at::Tensor half = loaded.encoder.embed(batch, loaded.model.embedding, options);
  EXPECT_GE((half * wanted).sum(1).min().item<double>(), 0.999);
}

// A last layer that computes the first tokens only, beside the whole one: vectors, and gradients of
// everything.
void expect_first_tokens_equal_all(const ForwardOptions& options, double tolerance) {
  const SafeTensors expected(fixture_path("minilm_expected.safetensors"));
  const std::vector<std::int32_t> all_ids = read_ints(expected, "token_ids"),
                                  all_offsets = read_ints(expected, "offsets");
  constexpr std::size_t documents = 5;  // enough, and no more: all layers learn, eight times
  const std::span<const std::int32_t> offsets = std::span(all_offsets).first(documents + 1);
  const PackedTokens batch = pack_tokens(
      std::span(all_ids).first(static_cast<std::size_t>(offsets.back())), offsets, at::kCPU);
  std::vector<at::Tensor> rows, gradients[2];
  for (const bool all : {false, true}) {
    LoadedEncoder loaded = load_encoder(minilm_folder);
    loaded.encoder.train_top_layers(-1);
    rows.push_back(
        all ? loaded.encoder.pool(loaded.encoder.forward(batch, options), batch, Pooling::pooler)
            : loaded.encoder.embed(batch, {Pooling::pooler, false, 256}, options));
    (rows.back() * at::randn(rows.back().sizes(), make_generator(at::kCPU, 5))).sum().backward();
    for (const NamedParameter& parameter : loaded.encoder.parameters())
      gradients[all].push_back(parameter.value.grad().flatten());
  }
  EXPECT_LE(largest_difference(rows[0], rows[1]), tolerance);
  ASSERT_EQ(gradients[0].size(), gradients[1].size());
  double square = 0, difference = 0;
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    square += std::pow(gradients[1][i].norm().item<double>(), 2);
    difference += std::pow((gradients[0][i] - gradients[1][i]).norm().item<double>(), 2);
  }
  EXPECT_LE(std::sqrt(difference / square), tolerance);
}
bool has_own_layers(at::ScalarType compute) {
  return kernels::best_isa() >=
         (compute == at::kFloat ? kernels::Isa::avx2 : kernels::Isa::avx512_bf16);
}

TEST(MiniLm, FirstTokensAloneGiveTheSameVectorsAndGradients) {
  for (const bool checkpoint : {false, true})
    for (const bool plain : {false, true}) {
      ForwardOptions options;
      options.checkpoint_layers = checkpoint;
      options.plain_layers = plain;
      options.generator = make_generator(at::kCPU, 1);
      expect_first_tokens_equal_all(options, 2e-6);
      options.compute = at::kBFloat16;  // without layers of our own the plain ones stand in
      if (plain || has_own_layers(options.compute)) expect_first_tokens_equal_all(options, 2e-2);
    }
}

TEST(MiniLm, FirstTokensOfAFrozenEncoder) {
  const SafeTensors expected(fixture_path("minilm_expected.safetensors"));
  const PackedTokens batch = read_batch(expected);
  const LoadedEncoder loaded = load_encoder(minilm_folder);
  EXPECT_TRUE(at::equal(loaded.encoder.embed(batch, {Pooling::cls, false, 256}),
                        loaded.encoder.pool(loaded.encoder.forward(batch), batch, Pooling::cls)));
}

// Gradients of the top three layers, each flattened, in order.
std::vector<at::Tensor> minilm_gradients(at::ScalarType compute, bool plain, int threads) {
  at::set_num_threads(threads);
  const SafeTensors expected(fixture_path("minilm_expected.safetensors"));
  LoadedEncoder loaded = load_encoder(minilm_folder);
  loaded.encoder.train_top_layers(3);
  ForwardOptions options;
  options.compute = compute;
  options.plain_layers = plain;
  options.generator = make_generator(at::kCPU, 1);
  const at::Tensor rows =
      loaded.encoder.embed(read_batch(expected), loaded.model.embedding, options);
  (rows * at::randn(rows.sizes(), make_generator(at::kCPU, 5))).sum().backward();
  at::set_num_threads(1);
  std::vector<at::Tensor> gradients;
  for (const NamedParameter& parameter : loaded.encoder.parameters()) {
    if (parameter.value.requires_grad() && !parameter.name.starts_with("pooler."))
      gradients.push_back(parameter.value.grad().flatten());
  }
  return gradients;
}

// Relative distance of two gradients; key biases, whose gradient is zero up to rounding, are
// measured against the query biases.
double distance(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& twin) {
  double largest = ours.size() == twin.size() ? 0 : 1e30;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double scale = twin[i % 16 == 3 ? i - 2 : i].norm().item<double>();
    largest = std::max(largest, (ours[i] - twin[i]).norm().item<double>() / scale);
  }
  return largest;
}

TEST(MiniLm, FusedLayersFollowThePlainOperators) {
  const auto exact = minilm_gradients(at::kFloat, true, 1);
  EXPECT_EQ(exact.size(), 48U);
  EXPECT_LE(distance(minilm_gradients(at::kFloat, false, 1), exact), 1e-4);
  const double plain_error = distance(minilm_gradients(at::kBFloat16, true, 1), exact);
  EXPECT_LE(distance(minilm_gradients(at::kBFloat16, false, 1), exact),
            std::max(plain_error, 0.03));
}

// Sums over rows go by lots, not by threads.
TEST(MiniLm, GradientsOfOwnLayersAreTheSameOnAnyNumberOfThreads) {
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    if (!has_own_layers(compute)) continue;
    const auto one = minilm_gradients(compute, false, 1),
               three = minilm_gradients(compute, false, 3);
    ASSERT_EQ(one.size(), 48U);
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_TRUE(at::equal(one[i], three[i])) << compute << ", parameter " << i;
  }
}

// at::parallel_for is a template: without OpenMP in our own objects its loops would be serial.
TEST(Threads, LoopsRunOnAllOfThem) {
  at::set_num_threads(3);
  std::mutex mutex;
  std::set<int> seen;
  at::parallel_for(0, 3, 1, [&](std::int64_t, std::int64_t) {
    const std::lock_guard lock(mutex);
    seen.insert(at::get_thread_num());
  });
  at::set_num_threads(1);
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2}));
}

}  // namespace
}  // namespace gpuhpc
