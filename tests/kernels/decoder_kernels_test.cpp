// The kernels of T5's decoder and of ModernBERT at every level this machine has, against plain
// double-precision mathematics.
#include "gpuhpc/kernels/decoder_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rows.hpp"

namespace gpuhpc::kernels {
namespace {

template <typename T>
void check_rms_norm(Isa isa) {
  Random random(4);
  for (const std::int64_t columns : {20, 32, 100, 512}) {
    const std::int64_t rows = 5;
    Rows<float> values = random.rows<float>(rows, columns, 3);
    std::vector<float> gamma = random.vector(columns);
    gamma.resize(static_cast<std::size_t>(values.stride));
    Rows<T> output = random.rows<T>(rows, values.stride);
    decoder_kernels<T>(isa).rms_norm({values.values.data(), values.stride, rows, columns,
                                      gamma.data(), .3F, output.values.data(), output.stride});
    for (std::int64_t r = 0; r < rows; ++r) {
      double squares = 0;
      for (std::int64_t c = 0; c < columns; ++c)
        squares += std::pow(values.at(r, c), 2) / static_cast<double>(columns);
      for (std::int64_t c = 0; c < values.stride; ++c) {
        const double expected = c < columns ? values.at(r, c) / std::sqrt(squares + .3F) *
                                                  gamma[static_cast<std::size_t>(c)]
                                            : 0;
        ASSERT_NEAR(to_float(output.at(r, c)), expected, 2e-6 + 0.6 * kStep<T> * std::abs(expected))
            << to_string(isa) << " " << columns << " at " << r << "," << c;
      }
    }
  }
}

template <typename T>
void check_cached_attention(Isa isa) {
  Random random(3);
  const std::int64_t heads = 3, queries = 2;
  for (const std::int64_t head_size : {32, 64, 96, 128})
    for (const std::int64_t keys : {1, 2, 15, 16, 17, 40, 101}) {
      const bool shared = keys % 2 == 1, biased = keys != 40;
      const std::int64_t width = heads * head_size;
      Rows<T> query = random.rows<T>(queries, width, .3F);
      // of each key's heads side by side, then their values, behind what another layer has
      Rows<T> cache = random.rows<T>(2 * keys, 2 * width + 32);
      Rows<float> bias = random.rows<float>(heads, keys + 16);
      std::vector<const T*> rows;
      for (std::int64_t i = 0; i < 2 * keys; ++i)
        rows.push_back(&cache.at((i * 7 + 3) % (2 * keys), 0));  // in no order
      Rows<T> output(queries, width);
      AlignedBuffer<float> scratch(round_up(keys, 16));
      decoder_kernels<T>(isa).attention(
          {query.values.data(), query.stride, queries, heads, head_size, rows.data(),
           shared ? 0 : keys, keys, 32, head_size, width, biased ? bias.values.data() : nullptr,
           bias.stride, output.values.data(), output.stride, scratch.data()});
      for (std::int64_t q = 0; q < queries; ++q)
        for (std::int64_t h = 0; h < heads; ++h) {
          const auto key = [&](std::int64_t t, std::int64_t i) {
            return static_cast<double>(to_float(rows[static_cast<std::size_t>(
                (shared ? 0 : q * keys) + t)][32 + h * head_size + i]));
          };
          std::vector<double> weights;
          double total = 0;
          for (std::int64_t t = 0; t < keys; ++t) {
            double dot = biased ? bias.at(h, t) : 0;
            for (std::int64_t i = 0; i < head_size; ++i)
              dot += to_float(query.at(q, h * head_size + i)) * key(t, i);
            weights.push_back(std::exp(dot));
            total += weights.back();
          }
          for (std::int64_t i = 0; i < head_size; ++i) {
            double expected = 0;
            for (std::int64_t t = 0; t < keys; ++t)
              expected += weights[static_cast<std::size_t>(t)] / total * key(t, width + i);
            ASSERT_NEAR(to_float(output.at(q, h * head_size + i)), expected,
                        4e-6 + 0.6 * kStep<T> * std::abs(expected))
                << to_string(isa) << " keys " << keys << " head size " << head_size << " at " << q
                << "," << h << "," << i;
          }
        }
    }
}

template <typename T>
Rows<T> values_of(const Rows<T>& rows, std::int64_t count) {
  Rows<T> copy(count, rows.stride);
  std::copy_n(rows.values.data(), rows.values.size(), copy.values.data());
  return copy;
}

template <typename T>
void check_gate(Isa isa) {
  Random random(6);
  Rows<T> values = random.rows<T>(3, 96), factors = random.rows<T>(3, 96),
          before = values_of(values, 3);
  decoder_kernels<T>(isa).gate({values.values.data(), factors.values.data(), 96, 3, 64});
  for (std::int64_t r = 0; r < 3; ++r)
    for (std::int64_t c = 0; c < 96; ++c) {
      const float old = to_float(before.at(r, c));
      ASSERT_EQ(to_float(values.at(r, c)),
                to_float(rounded<T>(c < 64 ? old * to_float(factors.at(r, c)) : old)));
    }
}

template <typename T>
void check_rotary(Isa isa) {
  Random random(8);
  for (const std::int64_t head_size : {64, 32, 24, 6}) {
    const std::int64_t rows = 5, heads = 3, half = head_size / 2;
    Rows<T> values = random.rows<T>(rows, heads * head_size + 32), before = values_of(values, rows);
    const std::vector<float> cosines = random.vector(rows * half),
                             sines = random.vector(rows * half);
    decoder_kernels<T>(isa).rotary({values.values.data(), values.stride, rows, heads, head_size,
                                    cosines.data(), sines.data()});
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < values.stride; ++c) {
        const std::int64_t i = c % head_size % half, place = r * half + i;
        const double cosine = cosines[static_cast<std::size_t>(place)],
                     sine = sines[static_cast<std::size_t>(place)], old = to_float(before.at(r, c));
        const double expected = c >= heads * head_size ? old
                                : c % head_size < half
                                    ? old * cosine - to_float(before.at(r, c + half)) * sine
                                    : old * cosine + to_float(before.at(r, c - half)) * sine;
        ASSERT_NEAR(to_float(values.at(r, c)), expected, 2e-6 + 0.6 * kStep<T> * std::abs(expected))
            << to_string(isa) << " head size " << head_size << " at " << r << "," << c;
      }
  }
}

// Some of the queries, each seeing keys near by: the rows of the whole, the others untouched.
template <typename T>
void check_some_queries(Isa isa) {
  const auto kernels = encoder_kernels<T>(isa);
  Random random(9);
  for (const std::int64_t head_size : {32, 20})
    for (const std::int64_t window : {0, 5, 40}) {
      const std::int64_t tokens = 101, heads = 2, width = heads * head_size,
                         columns = round_up(width, 32), reach = round_up(tokens, 32);
      Rows<T> qkv = random.rows<T>(tokens, 3 * columns), whole(tokens, width), part(tokens, width);
      AlignedBuffer<std::byte> scratch(attention_scratch_bytes(tokens, head_size));
      std::vector<float> near;
      for (std::int64_t distance = 1 - reach; distance < reach; ++distance)
        near.push_back(std::abs(distance) <= window ? 0.0F : -1e30F);
      AttentionCall<T> call{qkv.values.data(),
                            qkv.stride,
                            columns,
                            2 * columns,
                            tokens,
                            heads,
                            head_size,
                            0.3F,
                            whole.values.data(),
                            whole.stride,
                            scratch.data(),
                            near.data() + reach - 1,
                            -1};
      const KernelScope<T> scope(kernels);
      kernels.attention(call);
      for (std::int64_t c = 0; window == 0 && c < width; ++c)  // its own value
        ASSERT_NEAR(to_float(whole.at(70, c)), to_float(qkv.at(70, 2 * columns + c)),
                    1e-6 + kStep<T> * std::abs(to_float(whole.at(70, c))));
      call.output = part.values.data(), call.first_query = 32, call.queries = 37;
      kernels.attention(call);
      for (std::int64_t q = 0; q < tokens; ++q)
        for (std::int64_t c = 0; c < width; ++c)
          ASSERT_EQ(to_float(part.at(q, c)), q >= 32 && q < 69 ? to_float(whole.at(q, c)) : 0.0F)
              << to_string(isa) << " window " << window << " at " << q << "," << c;
    }
}

class DecoderKernelsTest : public testing::TestWithParam<Isa> {};
TEST_P(DecoderKernelsTest, RmsNormFp32) { check_rms_norm<float>(GetParam()); }
TEST_P(DecoderKernelsTest, RmsNormBf16) { check_rms_norm<BFloat16>(GetParam()); }
TEST_P(DecoderKernelsTest, CachedAttentionFp32) { check_cached_attention<float>(GetParam()); }
TEST_P(DecoderKernelsTest, CachedAttentionBf16) { check_cached_attention<BFloat16>(GetParam()); }
TEST_P(DecoderKernelsTest, GateFp32) { check_gate<float>(GetParam()); }
TEST_P(DecoderKernelsTest, GateBf16) { check_gate<BFloat16>(GetParam()); }

TEST_P(DecoderKernelsTest, RotaryFp32) { check_rotary<float>(GetParam()); }
TEST_P(DecoderKernelsTest, RotaryBf16) { check_rotary<BFloat16>(GetParam()); }

TEST_P(DecoderKernelsTest, SomeQueriesFp32) { check_some_queries<float>(GetParam()); }
TEST_P(DecoderKernelsTest, SomeQueriesBf16) { check_some_queries<BFloat16>(GetParam()); }

TEST_P(DecoderKernelsTest, WordsAreSummedUpAndFound) {
  const WordKernels kernels = word_kernels(GetParam());
  Random random(7);
  for (const std::int64_t count : {1, 7, 16, 33, 64, 1000}) {
    std::vector<float> scores = random.vector(count);
    for (float& score : scores) score = 20 + 9 * score;
    double sum = 0;
    for (const float score : scores) sum += std::exp(static_cast<double>(score) - 20);
    EXPECT_NEAR(kernels.log_sum_exp(scores.data(), count), 20 + std::log(sum), 1e-5) << count;
    scores[static_cast<std::size_t>(count / 2)] = -std::numeric_limits<float>::infinity();
    for (const float bound : {scores[0], scores[static_cast<std::size_t>(count / 3)], 1e9F})
      for (std::int64_t from = 0; from <= count; from += 1 + count / 10) {
        const auto found = std::find_if(scores.begin() + from, scores.end(),
                                        [&](float score) { return score > bound; });
        EXPECT_EQ(kernels.next_above(scores.data(), from, count, bound), found - scores.begin());
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, DecoderKernelsTest, testing::ValuesIn(supported_isas()),
                         [](const auto& level) {
                           std::string name(to_string(level.param));
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace gpuhpc::kernels
