// Every kernel of every level this machine has, against plain double-precision mathematics, on
// ragged sizes; and the promise that a row's result does not depend on its neighbours.
#include "gpuhpc/kernels/encoder_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "rows.hpp"

namespace gpuhpc::kernels {
namespace {

double activated(double x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::gelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return x > 0 ? x : 0;
  }
  return x;
}

template <typename T, typename W = T>
void check_linear(Isa isa) {
  const auto kernels = encoder_kernels<T, W>(isa);
  Random random(1);
  for (const std::int64_t rows : {1, 5, 12, 31, 32, 33, 77})
    for (const std::int64_t k : {32, 70, 160})
      for (const auto activation :
           {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
        const std::int64_t n = 128, first = rows % 2, panels = 3;
        Rows<T> input = random.input<T, W>(rows, k, Random::For::linear);
        const auto weight =
            pack<W>(random.matrix(n, k, 2 / std::sqrt(static_cast<float>(k))).view());
        const auto bias = random.vector(n);
        const Rows<W> own = for_linear<W>(input);
        Rows<T> output(rows, panels * 32);
        const KernelScope<T, W> scope(kernels);
        kernels.linear({own.values.data(), own.stride, rows, &weight, first, panels, bias.data(),
                        activation, output.values.data(), output.stride});
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < panels * 32; ++c) {
            const std::int64_t column = first * 32 + c;
            const double expected = activated(
                product(input, r, weight, column) + bias[static_cast<std::size_t>(column)],
                activation);
            const double slack = std::is_same_v<W, float>   ? 8e-6
                                 : std::is_same_v<T, float> ? 2 * kSlack<W>
                                 : std::is_same_v<W, Int8>  ? 7e-4
                                                            : 3e-4;
            ASSERT_NEAR(to_float(output.at(r, c)), expected,
                        slack + 0.6 * kStep<T> * std::abs(expected))
                << to_string(isa) << " rows " << rows << " k " << k << " at " << r << "," << c;
          }
      }
}

template <typename T, typename W = T>
void check_accumulate(Isa isa) {
  const auto kernels = encoder_kernels<T, W>(isa);
  Random random(2);
  for (const std::int64_t rows : {1, 12, 13, 32, 45, 64})
    for (const std::int64_t n : {32, 90, 160}) {
      const std::int64_t k = 96;
      Rows<T> input = random.input<T, W>(rows, k, Random::For::accumulate);
      const auto weight = pack<W>(random.matrix(n, k, 0.1F).view());
      Rows<float> output = random.rows<float>(rows, weight.columns);
      Rows<float> before(rows, weight.columns);
      std::memcpy(before.values.data(), output.values.data(),
                  static_cast<std::size_t>(output.values.size()) * sizeof(float));
      const KernelScope<T, W> scope(kernels);
      kernels.accumulate(
          {input.values.data(), input.stride, rows, &weight, output.values.data(), output.stride});
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < n; ++c)
          ASSERT_NEAR(output.at(r, c), before.at(r, c) + product(input, r, weight, c), kSlack<W>)
              << to_string(isa) << " " << r << "," << c;
    }
}

// A block of a product: some panels, some of k, added or written over; the rest of the output
// stays.
template <typename T, typename W = T>
void check_blocks(Isa isa) {
  const auto kernels = encoder_kernels<T, W>(isa);
  Random random(5);
  constexpr std::int64_t rows = 64, k_count = 128, n = 160;
  Rows<T> input = random.rows<T>(rows, k_count);
  const auto weight = pack<W>(random.matrix(n, k_count, 0.1F).view());
  Rows<float> whole(rows, n), blocked = random.rows<float>(rows, n);
  Rows<T> linear_whole(rows, n), linear_blocked(rows, n);
  const std::vector<float> bias(n, 0.25F);
  const KernelScope<T, W> scope(kernels);
  kernels.accumulate(
      {input.values.data(), input.stride, rows, &weight, whole.values.data(), whole.stride});
  for (const std::int64_t k : {0, 32})
    for (const auto& [panel, panels] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 2}}) {
      AccumulateCall<T, W> call{
          input.values.data() + k, input.stride, rows, &weight, blocked.values.data() + panel * 32,
          blocked.stride};
      call.first_panel = panel;
      call.panels = panels;
      call.first_k = k;
      call.depth = k == 0 ? 32 : 96;
      call.overwrite = k == 0;
      kernels.accumulate(call);
    }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < n; ++c)
      ASSERT_NEAR(blocked.at(r, c), whole.at(r, c), 5e-6) << to_string(isa) << " " << r << "," << c;
  Rows<T> turned(rows, k_count);  // the same input in blocks of 32 x 32
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = 0; k < k_count; ++k)
      turned.values.data()[(r / 32 * (k_count / 32) + k / 32) * 1024 + r % 32 * 32 + k % 32] =
          input.at(r, k);
  AccumulateCall<T, W> in_blocks{turned.values.data(), 32, rows, &weight, blocked.values.data(),
                                 blocked.stride};
  in_blocks.overwrite = true;
  in_blocks.k_step = 1024;
  in_blocks.row_step = 1024 * (k_count / 32);
  kernels.accumulate(in_blocks);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < n; ++c)
      ASSERT_NEAR(blocked.at(r, c), whole.at(r, c), 5e-6) << to_string(isa) << " " << r << "," << c;
  const Rows<W> own = for_linear<W>(input);
  LinearCall<T, W> call{own.values.data() + 32,
                        own.stride,
                        rows,
                        &weight,
                        0,
                        5,
                        bias.data(),
                        Activation::none,
                        linear_blocked.values.data(),
                        linear_blocked.stride};
  call.first_k = 32;
  call.depth = 64;
  kernels.linear(call);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < n; ++c) {
      double expected = 0.25;
      for (std::int64_t k = 32; k < 96; ++k)
        expected += to_float(input.at(r, k)) * weight_at(weight, k, c);
      ASSERT_NEAR(to_float(linear_blocked.at(r, c)), expected,
                  kSlack<W> + kStep<T> * std::abs(expected))
          << to_string(isa) << " " << r << "," << c;
    }
}

template <typename T>
void check_attention(Isa isa) {
  const auto kernels = encoder_kernels<T>(isa);
  Random random(3);
  for (const std::int64_t head_size : {32, 64, 20})
    for (const std::int64_t tokens : {1, 2, 7, 16, 17, 32, 33, 100, 150}) {
      const bool started = tokens % 2 == 1 || tokens == 100;  // scores that do not start from zero
      const bool by_distance = tokens % 3 == 0 || tokens == 100;  // a number for each of a head's
      const std::int64_t heads = 3, width = heads * head_size, columns = round_up(width, 32);
      Rows<T> qkv =
          random.rows<T>(tokens + 5, 3 * columns);  // five rows of the next document behind
      Rows<T> output(tokens, width);
      AlignedBuffer<std::byte> scratch(attention_scratch_bytes(tokens, head_size));
      const float scale = 1 / std::sqrt(static_cast<float>(head_size));
      Rows<float> start =
          random.rows<float>(tokens, tokens, std::sqrt(static_cast<float>(head_size)));
      const std::int64_t reach = round_up(tokens, 32);
      Rows<float> distances =
          random.rows<float>(heads, 2 * reach - 1, std::sqrt(static_cast<float>(head_size)));
      const KernelScope<T> scope(kernels);
      kernels.attention({qkv.values.data(), qkv.stride, columns, 2 * columns, tokens, heads,
                         head_size, scale, output.values.data(), output.stride, scratch.data(),
                         !started      ? nullptr
                         : by_distance ? distances.values.data() + reach - 1
                                       : start.values.data(),
                         by_distance ? -1 : start.stride, by_distance ? distances.stride : 0});
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t q = 0; q < tokens; ++q) {
          std::vector<double> weights;
          double total = 0;
          for (std::int64_t t = 0; t < tokens; ++t) {
            double dot = !started      ? 0
                         : by_distance ? distances.at(h, reach - 1 + t - q)
                                       : start.at(q, t);
            for (std::int64_t i = 0; i < head_size; ++i)
              dot += static_cast<double>(to_float(qkv.at(q, h * head_size + i))) *
                     to_float(qkv.at(t, columns + h * head_size + i));
            weights.push_back(std::exp(dot * scale));
            total += weights.back();
          }
          for (std::int64_t i = 0; i < head_size; ++i) {
            double expected = 0;
            for (std::int64_t t = 0; t < tokens; ++t)
              expected += weights[static_cast<std::size_t>(t)] / total *
                          to_float(qkv.at(t, 2 * columns + h * head_size + i));
            const double slack = std::is_same_v<T, float> ? 3e-6 : 6e-3;
            ASSERT_NEAR(to_float(output.at(q, h * head_size + i)), expected,
                        slack + 0.6 * kStep<T> * std::abs(expected))
                << to_string(isa) << " tokens " << tokens << " head size " << head_size << " at "
                << q << "," << i;
          }
        }
    }
}

template <typename T>
void check_relative_scores(Isa isa) {
  const auto kernels = encoder_kernels<T>(isa);
  Random random(8);
  for (const std::int64_t queries : {1, 15, 16, 17, 32})
    for (const std::int64_t keys : {1, 16, 23, 32})
      for (const bool consecutive : {true, false}) {
        Rows<float> to = random.rows<float>(34, 96),
                    from = random.rows<float>(34, 96);  // a row before and one behind
        Rows<float> scores(32, 64);
        std::vector<std::int32_t> columns;
        for (std::int32_t i = -31; i < 32; ++i)
          columns.push_back(1000 + (consecutive ? 40 - i : (63 - i) / 2));
        kernels.relative_scores({&to.at(1, 0), &from.at(1, 0), 96, queries, keys,
                                 columns.data() + 31, 1000, consecutive, scores.values.data(),
                                 scores.stride});
        for (std::int64_t q = 0; q < queries; ++q)
          for (std::int64_t k = 0; k < keys; ++k) {
            const std::int64_t column = columns[static_cast<std::size_t>(31 + k - q)] - 1000;
            ASSERT_EQ(scores.at(q, k), to.at(1 + q, column) + from.at(1 + k, column))
                << to_string(isa) << " " << queries << " x " << keys << " at " << q << "," << k;
          }
      }
}

template <typename T, typename W = T>
void check_layer_norm(Isa isa) {
  const auto kernels = encoder_kernels<T, W>(isa);
  Random random(4);
  enum class After { same, biased, kept };  // of the fp32 rows
  for (const std::int64_t columns : {32, 72, 100, 384})
    for (const After after : {After::same, After::biased, After::kept}) {
      const std::int64_t rows = 9;
      Rows<float> values = random.rows<float>(rows, columns, 3);
      Rows<float> before(rows, columns);
      std::memcpy(before.values.data(), values.values.data(),
                  static_cast<std::size_t>(values.values.size()) * sizeof(float));
      const auto gamma = random.vector(columns), beta = random.vector(columns),
                 bias = random.vector(columns);
      Rows<W> output(rows, columns);
      const KernelScope<T, W> scope(kernels);
      kernels.layer_norm({values.values.data(), values.stride, rows, columns, gamma.data(),
                          beta.data(), 1e-12F, after == After::biased ? bias.data() : nullptr,
                          output.values.data(), output.stride, after == After::kept});
      for (std::int64_t r = 0; r < rows; ++r) {
        double mean = 0, square = 0;
        for (std::int64_t c = 0; c < columns; ++c)
          mean += before.at(r, c) / static_cast<double>(columns);
        for (std::int64_t c = 0; c < columns; ++c)
          square += std::pow(before.at(r, c) - mean, 2) / static_cast<double>(columns);
        double slack = 4e-6;
        if constexpr (std::is_same_v<W, Int8>) {  // half a step of the row
          for (std::int64_t c = 0; c < columns; ++c) {
            const auto i = static_cast<std::size_t>(c);
            slack = std::max(
                slack, std::abs((before.at(r, c) - mean) / std::sqrt(square) * gamma[i] + beta[i]) /
                           127 * 0.501);
          }
        }
        for (std::int64_t c = 0; c < columns; ++c) {
          const auto i = static_cast<std::size_t>(c);
          const double expected =
              (before.at(r, c) - mean) / std::sqrt(square + 1e-12) * gamma[i] + beta[i];
          ASSERT_NEAR(value(output, r, c), expected, slack + 0.6 * kStep<W> * std::abs(expected))
              << to_string(isa) << " " << columns;
          ASSERT_NEAR(values.at(r, c),
                      after == After::kept     ? before.at(r, c)
                      : after == After::biased ? expected + bias[i]
                                               : expected,
                      4e-6)
              << to_string(isa) << " " << columns;
        }
      }
    }
}

// Rows in one call and rows in calls of every size: the same bits.
template <typename T, typename W = T>
void check_grouping(Isa isa) {
  const auto kernels = encoder_kernels<T, W>(isa);
  Random random(5);
  const std::int64_t rows = 64, k = 96;
  Rows<T> input = random.input<T, W>(rows, k, Random::For::accumulate);
  const auto weight = pack<W>(random.matrix(64, k, 0.2F).view());
  const auto bias = random.vector(64);
  Rows<T> whole(rows, 64), single(rows, 64);
  Rows<float> whole_sums(rows, 64), single_sums(rows, 64);
  const KernelScope<T, W> scope(kernels);
  const Rows<W> own = for_linear<W>(input);
  kernels.linear({own.values.data(), own.stride, rows, &weight, 0, 2, bias.data(), Activation::gelu,
                  whole.values.data(), whole.stride});
  kernels.accumulate({input.values.data(), input.stride, rows, &weight, whole_sums.values.data(),
                      whole_sums.stride});
  for (std::int64_t group = 1; group <= 32; ++group) {
    Rows<T> part(32, k), result(32, 64);
    Rows<float> sums(32, 64);
    const std::int64_t first = group % 7;
    std::memcpy(part.values.data(), input.values.data() + first * input.stride,
                static_cast<std::size_t>(group * input.stride) * sizeof(T));
    const Rows<W> own_part = for_linear<W>(part);
    kernels.linear(
        {own_part.values.data(),
         own_part.stride,
         group,
         &weight,
         0,
         2,
         bias.data(),
         Activation::gelu,
         result.values.data(),
         result.stride,
         {reinterpret_cast<const std::byte*>(weight.values.data()), weight.values.size()}});
    kernels.accumulate(
        {part.values.data(), part.stride, group, &weight, sums.values.data(), sums.stride});
    ASSERT_EQ(std::memcmp(result.values.data(), &whole.at(first, 0),
                          static_cast<std::size_t>(group * 64) * sizeof(T)),
              0)
        << group;
    ASSERT_EQ(std::memcmp(sums.values.data(), &whole_sums.at(first, 0),
                          static_cast<std::size_t>(group * 64) * sizeof(float)),
              0)
        << group;
  }
}

// Products of fp32 rows and split weights, whole and in pieces of k: 2^-15 of what is added up,
// whatever its size.
void check_split(Isa isa) {
  const auto kernels = encoder_kernels<float, SplitBFloat16>(isa);
  const KernelScope<float, SplitBFloat16> scope(kernels);
  Random random(9);
  for (const std::int64_t rows : {1, 31, 33})
    for (const std::int64_t k_count : {33, 257, 800})
      for (const bool ill :
           {false,
            true}) {  // every row and column of a size of its own, and values far apart within them
        const std::int64_t n = 300, panels = round_up(n, 32) / 32;
        const auto size = [&](std::int64_t i, int of) {
          return ill ? std::ldexp(1.0F, static_cast<int>(i * 7 % of) - of / 2) : 1.0F;
        };
        Rows<float> input(rows, k_count);
        Matrix plain(n, k_count);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t k = 0; k < k_count; ++k)
            input.at(r, k) = random.normal(size(r, 61)) * size(k, 13);
        for (std::int64_t c = 0; c < n; ++c)
          for (std::int64_t k = 0; k < k_count; ++k)
            plain.row(c)[static_cast<std::size_t>(k)] = random.normal(size(c, 61)) * size(k, 11);
        const auto weight = pack<SplitBFloat16>(plain.view());
        const std::vector<float> bias(static_cast<std::size_t>(weight.columns), 0.0F);
        Rows<float> added(rows, n), linear(rows, n);
        kernels.accumulate(
            {input.values.data(), input.stride, rows, &weight, added.values.data(), added.stride});
        const auto own = for_linear<SplitBFloat16>(input);
        kernels.linear({own.values.data(), own.stride, rows, &weight, 0, panels, bias.data(),
                        Activation::none, linear.values.data(), linear.stride});
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < n; ++c) {
            double expected = 0, sizes = 0;
            for (std::int64_t k = 0; k < k_count; ++k) {
              const double term =
                  static_cast<double>(input.at(r, k)) * plain.row(c)[static_cast<std::size_t>(k)];
              expected += term;
              sizes += std::abs(term);
            }
            ASSERT_NEAR(added.at(r, c), expected, sizes * 0x1p-15)
                << to_string(isa) << " rows " << rows << " k " << k_count << " at " << r << ","
                << c;
            ASSERT_NEAR(linear.at(r, c), expected, sizes * 0x1p-15)
                << to_string(isa) << " rows " << rows << " k " << k_count << " at " << r << ","
                << c;
          }
      }
}

class EveryLevel : public testing::TestWithParam<Isa> {};
TEST_P(EveryLevel, LinearFp32) { check_linear<float>(GetParam()); }
TEST_P(EveryLevel, LinearBf16) { check_linear<BFloat16>(GetParam()); }
TEST_P(EveryLevel, LinearSplit) { check_linear<float, SplitBFloat16>(GetParam()); }
TEST_P(EveryLevel, LinearInt8) { check_linear<BFloat16, Int8>(GetParam()); }
TEST_P(EveryLevel, AccumulateInt8) { check_accumulate<BFloat16, Int8>(GetParam()); }
TEST_P(EveryLevel, LayerNormInt8) { check_layer_norm<BFloat16, Int8>(GetParam()); }
TEST_P(EveryLevel, GroupingDoesNotMatterInt8) { check_grouping<BFloat16, Int8>(GetParam()); }
TEST_P(EveryLevel, AccumulateFp32) { check_accumulate<float>(GetParam()); }
TEST_P(EveryLevel, AccumulateBf16) { check_accumulate<BFloat16>(GetParam()); }
TEST_P(EveryLevel, AccumulateSplit) { check_accumulate<float, SplitBFloat16>(GetParam()); }
TEST_P(EveryLevel, BlocksFp32) { check_blocks<float>(GetParam()); }
TEST_P(EveryLevel, BlocksBf16) { check_blocks<BFloat16>(GetParam()); }
TEST_P(EveryLevel, BlocksSplit) { check_blocks<float, SplitBFloat16>(GetParam()); }
TEST_P(EveryLevel, SplitProductsKeepFifteenBits) { check_split(GetParam()); }
TEST_P(EveryLevel, AttentionFp32) { check_attention<float>(GetParam()); }
TEST_P(EveryLevel, AttentionBf16) { check_attention<BFloat16>(GetParam()); }
TEST_P(EveryLevel, RelativeScoresFp32) { check_relative_scores<float>(GetParam()); }
TEST_P(EveryLevel, RelativeScoresBf16) { check_relative_scores<BFloat16>(GetParam()); }
TEST_P(EveryLevel, LayerNormFp32) { check_layer_norm<float>(GetParam()); }
TEST_P(EveryLevel, LayerNormBf16) { check_layer_norm<BFloat16>(GetParam()); }
TEST_P(EveryLevel, LayerNormSplit) { check_layer_norm<float, SplitBFloat16>(GetParam()); }
TEST_P(EveryLevel, GroupingDoesNotMatterFp32) { check_grouping<float>(GetParam()); }
TEST_P(EveryLevel, GroupingDoesNotMatterBf16) { check_grouping<BFloat16>(GetParam()); }
TEST_P(EveryLevel, GroupingDoesNotMatterSplit) { check_grouping<float, SplitBFloat16>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Levels, EveryLevel, testing::ValuesIn(supported_isas()),
                         [](const auto& level) {
                           std::string name(to_string(level.param));
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST(Isa, NamesGoBothWays) {
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx})
    EXPECT_EQ(parse_isa(to_string(isa)), isa);
  EXPECT_THROW(parse_isa("sse"), Error);
  EXPECT_TRUE(supported(Isa::generic));
  EXPECT_EQ(supported_isas().back(), best_isa());
}

TEST(Isa, Bf16IsPreferredWithTilesAndWithoutIntel) {
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) EXPECT_FALSE(prefers_bf16(isa));
  EXPECT_TRUE(prefers_bf16(Isa::amx));
  std::ifstream processor("/proc/cpuinfo");
  const std::string text(std::istreambuf_iterator<char>(processor), {});
  ASSERT_NE(text.find("vendor_id"), std::string::npos);
  EXPECT_EQ(prefers_bf16(Isa::avx512_bf16), text.find("GenuineIntel") == std::string::npos);
}

// In a process of its own: it stays.
TEST(Isa, ALimitLeavesNoHigherLevel) {
  const auto limited = [] {
    limit_isa(Isa::generic);
    if (supported_isas() != std::vector{Isa::generic} || best_isa() != Isa::generic) std::exit(1);
    try {
      limit_isa(Isa::avx2);
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
      std::exit(static_cast<int>(error.code()));
    }
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(78), "has no avx2; its best level is generic");
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bf16(1.0F + 1.0F / 256).bits, 0x3f80);  // half way: to even
  EXPECT_EQ(to_bf16(1.0F + 3.0F / 256).bits, 0x3f82);  // half way: to even
  EXPECT_EQ(to_bf16(1.0F + 1.01F / 256).bits, 0x3f81);
  EXPECT_EQ(to_float(to_bf16(-2.5F)), -2.5F);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(NAN))));
  EXPECT_TRUE(std::isinf(to_float(to_bf16(3.4e38F))));
}

TEST(PackedMatrix, PadsWithZerosAndFindsEveryElement) {
  Random random(6);
  const Matrix weight = random.matrix(33, 40, 1);
  const auto f = pack_f32(weight.view());
  const auto b = pack_bf16(weight.view());
  const auto s = pack_split(weight.view());
  const auto i = pack_int8(weight.view());
  EXPECT_EQ(i.values.size(), 64 * 64);
  EXPECT_EQ(f.rows, 64);
  EXPECT_EQ(f.columns, 64);
  for (std::int64_t n = 0; n < 64; ++n)
    for (std::int64_t k = 0; k < 64; ++k) {
      const float expected = n < 33 && k < 40 ? weight.row(n)[static_cast<std::size_t>(k)] : 0.0F;
      EXPECT_EQ(f.values.data()[packed_index(f, k, n)], expected);
      EXPECT_EQ(b.values.data()[packed_index(b, k, n)].bits, to_bf16(expected).bits);
      EXPECT_EQ(halves(s.values.data())[packed_index(s, k, n)].bits, to_bf16(expected).bits);
      EXPECT_NEAR(weight_at(s, k, n), expected, std::abs(expected) * 0x1p-17);
      EXPECT_NEAR(weight_at(i, k, n), expected, 0.5001 * i.scales.data()[n]);
    }
}

}  // namespace
}  // namespace gpuhpc::kernels
