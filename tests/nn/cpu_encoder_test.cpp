// The packed CPU encoder against the LibTorch encoder on real weights, and against itself in other
// company.
#include "gpuhpc/nn/cpu_encoder.hpp"

#include <gtest/gtest.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "fixture.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/host_matrices.hpp"

namespace gpuhpc {
namespace {

struct Documents {
  std::vector<std::int32_t> ids, offsets{0};
  void add(std::mt19937& random, std::int64_t tokens) {
    ids.push_back(101);
    for (std::int64_t i = 0; i < tokens - 2; ++i)
      ids.push_back(static_cast<std::int32_t>(1000 + random() % 20000));
    if (tokens > 1) ids.push_back(102);
    offsets.push_back(static_cast<std::int32_t>(ids.size()));
  }
  PackedIds view() const { return {ids, {}, offsets, {}}; }
  std::int64_t size() const { return std::ssize(offsets) - 1; }
};

Documents ragged(std::initializer_list<std::int64_t> lengths) {
  std::mt19937 random(7);
  Documents all;
  for (const std::int64_t length : lengths) all.add(random, length);
  return all;
}

const LoadedEncoder& model() {
  static const LoadedEncoder loaded = load_encoder(minilm_folder);
  return loaded;
}

Matrix embed(const CpuEncoder& encoder, const Documents& documents,
             const EmbeddingConfig& embedding) {
  Matrix result(documents.size(), embedding.width(encoder.config().hidden_size));
  const auto workspace = encoder.make_workspace();
  encoder.embed(*workspace, documents.view(), embedding, result.view());
  return result;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
  return ab / std::sqrt(aa * bb);
}

Matrix reference(const Encoder& encoder, const Documents& documents,
                 const EmbeddingConfig& embedding) {
  const at::NoGradGuard guard;
  const PackedTokens batch = pack_tokens(documents.ids, documents.offsets, at::kCPU);
  at::Tensor rows = encoder.pool(encoder.forward(batch), batch, embedding.pooling);
  rows = (embedding.normalise ? unit_rows(rows) : rows).contiguous();
  Matrix result(rows.size(0), rows.size(1));
  std::copy_n(rows.const_data_ptr<float>(), rows.numel(), result.values.begin());
  return result;
}

const Documents& sample() {
  static const Documents documents = ragged({1, 2, 3, 16, 17, 33, 64, 100, 31, 256});
  return documents;
}

// Levels that bring kernels of their own for a precision.
std::vector<kernels::Isa> levels_of(CpuPrecision precision) {
  using kernels::Isa;
  std::vector<Isa> all;
  for (const Isa isa :
       precision == CpuPrecision::fp32   ? std::vector{Isa::generic, Isa::avx2, Isa::avx512}
       : precision == CpuPrecision::tf32 ? std::vector{Isa::generic, Isa::amx}
                                         : std::vector{Isa::generic, Isa::avx512_bf16, Isa::amx})
    if (kernels::supported(isa)) all.push_back(isa);
  return all;
}

class EveryFp32Level : public testing::TestWithParam<kernels::Isa> {};
class EveryTf32Level : public testing::TestWithParam<kernels::Isa> {};
class EveryBf16Level : public testing::TestWithParam<kernels::Isa> {};

TEST_P(EveryFp32Level, EqualsLibTorch) {
  const CpuEncoder encoder(model().encoder, CpuPrecision::fp32, GetParam());
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::max}) {
    const EmbeddingConfig embedding{pooling, true, 256};
    const bool slow = GetParam() == kernels::Isa::generic && pooling != Pooling::mean;
    const Documents documents = slow ? ragged({2, 1, 17}) : sample();
    const Matrix expected = reference(model().encoder, documents, embedding),
                 got = embed(encoder, documents, embedding);
    for (std::size_t i = 0; i < got.values.size(); ++i)
      ASSERT_NEAR(got.values[i], expected.values[i], 5e-6) << i;
  }
}

TEST_P(EveryFp32Level, DenseModulesEqualSentenceTransformers) {
  const LoadedEncoder loaded = load_encoder(fixture_path("dense_bert"));
  const SafeTensors expected(fixture_path("dense_bert_expected.safetensors"));
  const CpuEncoder encoder(loaded.encoder, CpuPrecision::fp32, GetParam());
  const Documents documents{read_ints(expected, "token_ids"), read_ints(expected, "offsets")};
  const Matrix got = embed(encoder, documents, loaded.model.embedding),
               wanted = to_matrix(read_floats(expected, "vectors"));
  ASSERT_EQ(got.columns, 10);
  for (std::size_t i = 0; i < wanted.values.size(); ++i)
    ASSERT_NEAR(got.values[i], wanted.values[i], 1e-5) << i;
}

TEST_P(EveryFp32Level, LastTokensEqualSentenceTransformers) {
  const LoadedEncoder loaded = load_encoder(fixture_path("prompted_bert"));
  const SafeTensors expected(fixture_path("prompted_bert_expected.safetensors"));
  const CpuEncoder encoder(loaded.encoder, CpuPrecision::fp32, GetParam());
  const Documents documents{read_ints(expected, "token_ids"), read_ints(expected, "offsets")};
  const Matrix got = embed(encoder, documents, loaded.model.embedding),
               wanted = to_matrix(read_floats(expected, "vectors"));
  for (std::size_t i = 0; i < wanted.values.size(); ++i)
    ASSERT_NEAR(got.values[i], wanted.values[i], 1e-5) << i;
}

TEST_P(EveryFp32Level, FamiliesEqualTransformers) {
  for (const std::string name :
       {"tiny_roberta", "tiny_xlm_roberta", "tiny_mpnet", "tiny_modern", "tiny_modern_old"}) {
    const SafeTensors expected(fixture_path(name + "_expected.safetensors"));
    const CpuEncoder encoder(load_encoder(fixture_path(name)).encoder, CpuPrecision::fp32,
                             GetParam());
    const Documents documents{read_ints(expected, "token_ids"), read_ints(expected, "offsets")};
    for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::max}) {
      const Matrix got = embed(encoder, documents, {pooling, false, 24}),
                   wanted =
                       to_matrix(read_floats(expected, "pool." + std::string(to_string(pooling))));
      for (std::size_t i = 0; i < wanted.values.size(); ++i)
        ASSERT_NEAR(got.values[i], wanted.values[i], 1e-5) << name << " " << i;
    }
  }
}

// The plain twins are slow.
Documents few_or_all(kernels::Isa isa) {
  return isa < kernels::Isa::avx512_bf16 ? ragged({2, 17}) : sample();
}

TEST_P(EveryTf32Level, IsWithinSixteenBitsOfLibTorchFp32) {
  const CpuEncoder encoder(model().encoder, CpuPrecision::tf32, GetParam());
  const Documents documents = few_or_all(GetParam());
  const EmbeddingConfig embedding{Pooling::mean, true, 256};
  const Matrix expected = reference(model().encoder, documents, embedding),
               got = embed(encoder, documents, embedding);
  for (std::size_t i = 0; i < got.values.size(); ++i)
    ASSERT_NEAR(got.values[i], expected.values[i], 2e-5) << i;
}

void expect_cosines(CpuPrecision precision, kernels::Isa isa, double least) {
  const CpuEncoder encoder(model().encoder, precision, isa);
  const Documents documents = few_or_all(isa);
  for (const Pooling pooling : {Pooling::mean, Pooling::cls}) {
    const EmbeddingConfig embedding{pooling, true, 256};
    const Matrix expected = reference(model().encoder, documents, embedding),
                 got = embed(encoder, documents, embedding);
    for (std::int64_t b = 0; b < got.rows; ++b)
      EXPECT_GT(cosine(got.row(b), expected.row(b)), least) << b;
  }
}

TEST_P(EveryBf16Level, IsCloseToLibTorchFp32) {
  expect_cosines(CpuPrecision::bf16, GetParam(), 0.9995);
}

TEST_P(EveryBf16Level, Int8IsCloseToLibTorchFp32) {
  expect_cosines(CpuPrecision::int8, GetParam(), 0.995);  // random tokens, as few as one
}

// Alone, in a batch, in a batch of other order: the same bits.
void expect_neighbours_do_not_matter(const CpuEncoder& encoder) {
  const EmbeddingConfig embedding{Pooling::mean, true, 256};
  const Documents all =
      encoder.isa() == kernels::Isa::generic ? ragged({5, 2, 9, 3, 4}) : ragged({5, 40, 17, 2, 61});
  const Matrix together = embed(encoder, all, embedding);
  Documents reversed;
  for (std::int64_t b = all.size() - 1; b >= 0; --b) {
    const auto begin = all.ids.begin() + all.offsets[static_cast<std::size_t>(b)],
               end = all.ids.begin() + all.offsets[static_cast<std::size_t>(b) + 1];
    const Documents alone{{begin, end}, {0, static_cast<std::int32_t>(end - begin)}};
    reversed.ids.insert(reversed.ids.end(), begin, end);
    reversed.offsets.push_back(static_cast<std::int32_t>(reversed.ids.size()));
    const Matrix one = embed(encoder, alone, embedding);
    for (std::size_t i = 0; i < one.values.size(); ++i)
      ASSERT_EQ(one.values[i], together.row(b)[i]) << b;
  }
  const Matrix backwards = embed(encoder, reversed, embedding);
  for (std::int64_t b = 0; b < all.size(); ++b)
    for (std::size_t i = 0; i < 384; ++i)
      ASSERT_EQ(backwards.row(all.size() - 1 - b)[i], together.row(b)[i]);
}
TEST_P(EveryFp32Level, NeighboursDoNotMatter) {
  expect_neighbours_do_not_matter({model().encoder, CpuPrecision::fp32, GetParam()});
}
TEST_P(EveryTf32Level, NeighboursDoNotMatter) {
  expect_neighbours_do_not_matter({model().encoder, CpuPrecision::tf32, GetParam()});
}
TEST_P(EveryBf16Level, NeighboursDoNotMatter) {
  expect_neighbours_do_not_matter({model().encoder, CpuPrecision::bf16, GetParam()});
}
TEST_P(EveryBf16Level, NeighboursDoNotMatterInInt8) {
  expect_neighbours_do_not_matter({model().encoder, CpuPrecision::int8, GetParam()});
}

TEST_P(EveryFp32Level, HiddenStatesAfterSomeLayers) {
  Encoder lower = load_encoder(model().model.folder).encoder;
  const CpuEncoder encoder(lower, CpuPrecision::fp32, GetParam());
  const Documents documents = ragged({17, 3, 50});
  const auto workspace = encoder.make_workspace();
  for (const std::int64_t layers : {0, 4, 6}) {
    lower.train_top_layers(6 - layers);
    const at::NoGradGuard guard;
    const at::Tensor expected =
        lower.forward_frozen(pack_tokens(documents.ids, documents.offsets, at::kCPU)).contiguous();
    Matrix got(std::ssize(documents.ids), 384);
    encoder.hidden(*workspace, documents.view(), layers, got.view());
    for (std::size_t i = 0; i < got.values.size(); ++i)
      ASSERT_NEAR(got.values[i], expected.const_data_ptr<float>()[i], 2e-4) << layers << " " << i;
  }
}

// Shapes that fill no register and no panel, with segments or a bias by distance.
void expect_odd_shapes(CpuPrecision precision, kernels::Isa isa) {
  EncoderConfig config;
  config.vocabulary_size = 50;
  config.hidden_size = 60;
  config.layers = 2;
  config.heads = 3;
  config.intermediate_size = 100;
  config.position_rows = 40;
  config.position_offset = 2;
  config.activation = Activation::gelu_tanh;
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.3F);
  for (const std::int64_t types : {0, 2}) {
    config.token_types = types;
    if (types == 0) config.distances.emplace();
    const Encoder plain(config, at::kCPU, true);
    for (const NamedParameter& parameter : plain.parameters())
      for (std::int64_t i = 0; i < parameter.value.numel(); ++i)
        parameter.value.data_ptr<float>()[i] = normal(random);
    Documents documents;
    std::vector<std::int32_t> segments;
    for (const std::int64_t length : {1, 38, 5, 20}) {
      for (std::int64_t i = 0; i < length; ++i) {
        documents.ids.push_back(static_cast<std::int32_t>(random() % 50));
        if (types > 0) segments.push_back(static_cast<std::int32_t>(random() % 2));
      }
      documents.offsets.push_back(static_cast<std::int32_t>(documents.ids.size()));
    }
    const at::NoGradGuard guard;
    const EmbeddingConfig embedding{Pooling::pooler, false, 38};
    const at::Tensor expected =
        plain.embed(pack_tokens(documents.ids, documents.offsets, at::kCPU, segments), embedding)
            .contiguous();
    const CpuEncoder encoder(plain, precision, isa);
    Matrix got(4, 60);
    const auto workspace = encoder.make_workspace();
    encoder.embed(*workspace, {documents.ids, segments, documents.offsets, {}}, embedding,
                  got.view());
    for (std::size_t i = 0; i < got.values.size(); ++i)
      ASSERT_NEAR(got.values[i], expected.const_data_ptr<float>()[i],
                  precision == CpuPrecision::fp32   ? 2e-4
                  : precision == CpuPrecision::tf32 ? 5e-4
                                                    : 0.2)
          << i;
  }
}
TEST_P(EveryFp32Level, OddShapes) { expect_odd_shapes(CpuPrecision::fp32, GetParam()); }
TEST_P(EveryTf32Level, OddShapes) { expect_odd_shapes(CpuPrecision::tf32, GetParam()); }
TEST_P(EveryBf16Level, OddShapes) { expect_odd_shapes(CpuPrecision::bf16, GetParam()); }
TEST_P(EveryBf16Level, OddShapesInInt8) { expect_odd_shapes(CpuPrecision::int8, GetParam()); }

std::string level_name(const testing::TestParamInfo<kernels::Isa>& level) {
  std::string name(to_string(level.param));
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Levels, EveryFp32Level, testing::ValuesIn(levels_of(CpuPrecision::fp32)),
                         level_name);
INSTANTIATE_TEST_SUITE_P(Levels, EveryTf32Level, testing::ValuesIn(levels_of(CpuPrecision::tf32)),
                         level_name);
INSTANTIATE_TEST_SUITE_P(Levels, EveryBf16Level, testing::ValuesIn(levels_of(CpuPrecision::bf16)),
                         level_name);

TEST(CpuEncoder, NamesOfPrecisionsGoBothWays) {
  for (const CpuPrecision precision :
       {CpuPrecision::fp32, CpuPrecision::tf32, CpuPrecision::bf16, CpuPrecision::int8})
    EXPECT_EQ(parse_cpu_precision(to_string(precision)), precision);
  EXPECT_THROW(parse_cpu_precision("auto"), Error);
}

TEST(CpuEncoder, OnlyInt8IsRefusedOnLevelsWithoutIt) {
  using kernels::Isa;
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    EXPECT_EQ(usable_cpu_precision(CpuPrecision::bf16, isa), CpuPrecision::fp32);
    try {
      usable_cpu_precision(CpuPrecision::int8, isa);
      ADD_FAILURE() << to_string(isa);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::configuration);
      EXPECT_NE(std::string(error.what()).find("those of " + std::string(to_string(isa))),
                std::string::npos);
    }
  }
  for (const Isa isa : {Isa::avx512_bf16, Isa::amx})
    EXPECT_EQ(usable_cpu_precision(CpuPrecision::int8, isa), CpuPrecision::int8);
}

TEST(CpuEncoder, RefusesWhatDoesNotFit) {
  const CpuEncoder encoder(model().encoder, CpuPrecision::fp32);
  const EmbeddingConfig embedding{Pooling::mean, true, 256};
  EXPECT_THROW(embed(encoder, ragged({513}), embedding), Error);
  Documents outside = ragged({3});
  outside.ids[1] = 30522;
  EXPECT_THROW(embed(encoder, outside, embedding), Error);
}

}  // namespace
}  // namespace gpuhpc
