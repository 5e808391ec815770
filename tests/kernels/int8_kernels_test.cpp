// What int8 kernels have of their own, on every level this machine has: scales of pieces, the
// nearest integers, and numbers that are not finite.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gpuhpc/kernels/encoder_kernels.hpp"
#include "rows.hpp"

namespace gpuhpc::kernels {
namespace {

// Some panels of a product of integers, pieces of k with scales of their own, added or written
// over.
void check_pieces(Isa isa) {
  const auto kernels = encoder_kernels<BFloat16, Int8>(isa);
  const KernelScope<BFloat16, Int8> scope(kernels);
  Random random(10);
  for (const std::int64_t k_count : {64, 1024, 1056, 2400})
    for (const bool overwrite : {false, true}) {
      constexpr std::int64_t rows = 45, n = 160, first = 1, panels = 3;
      const std::int64_t piece = int8_piece(k_count);
      Rows<BFloat16> input = random.rows<BFloat16>(rows, k_count);
      for (std::int64_t k = 0; k < k_count; k += piece) {  // each piece of a size of its own
        const std::int64_t columns = std::min(piece, k_count - k);
        Rows<BFloat16> part = random.input<BFloat16, Int8>(rows, columns, Random::For::accumulate);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < columns; ++c)
            input.at(r, k + c) =
                to_bf16(std::ldexp(to_float(part.at(r, c)), static_cast<int>(k / piece) - 2));
      }
      const auto weight = pack<Int8>(random.matrix(n, k_count, 0.1F).view());
      Rows<float> output = random.rows<float>(rows, n);
      Rows<float> before = output.copy();
      AccumulateCall<BFloat16, Int8> call{input.values.data(),  input.stride, rows, &weight,
                                          output.values.data(), output.stride};
      call.first_panel = first, call.panels = panels, call.overwrite = overwrite;
      kernels.accumulate(call);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < n; ++c) {
          const double expected = c >= panels * 32 ? before.at(r, c)
                                                   : (overwrite ? 0 : before.at(r, c)) +
                                                         product(input, r, weight, first * 32 + c);
          ASSERT_NEAR(output.at(r, c), expected, 2e-6 * static_cast<double>(k_count) / 64)
              << to_string(isa) << " k " << k_count << " at " << r << "," << c;
        }
    }
}

// Any row, with a product that shows its integers: none is farther from its number than half a
// step.
void check_integers(Isa isa) {
  const auto kernels = encoder_kernels<BFloat16, Int8>(isa);
  const KernelScope<BFloat16, Int8> scope(kernels);
  Random random(11);
  constexpr std::int64_t rows = 70, columns = 96;
  Rows<BFloat16> input = random.rows<BFloat16>(rows, columns);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)  // rows of very different sizes, row 3 zeros
      input.at(r, c) = to_bf16(
          r == 3 ? 0.0F : std::ldexp(to_float(input.at(r, c)), static_cast<int>(r * 11 % 60) - 30));
  Matrix unit(columns, columns);
  for (std::int64_t c = 0; c < columns; ++c) unit.row(c)[static_cast<std::size_t>(c)] = 1;
  const auto weight = pack<Int8>(unit.view());
  Rows<float> output(rows, columns);
  kernels.accumulate(
      {input.values.data(), input.stride, rows, &weight, output.values.data(), output.stride});
  for (std::int64_t r = 0; r < rows; ++r) {
    double low = 0, high = 0;
    for (std::int64_t c = 0; c < columns; ++c) {
      low = std::min(low, static_cast<double>(to_float(input.at(r, c))));
      high = std::max(high, static_cast<double>(to_float(input.at(r, c))));
    }
    const double step = (high - low) / 255;
    for (std::int64_t c = 0; c < columns; ++c) {
      ASSERT_NEAR(output.at(r, c), to_float(input.at(r, c)), 0.5002 * step)
          << to_string(isa) << " at " << r << "," << c;
      if (step > 0) {
        const double steps = output.at(r, c) / step;
        ASSERT_NEAR(steps, std::round(steps), 1e-3) << to_string(isa) << " at " << r << "," << c;
      }
    }
  }
}

// Whatever is not finite in a row stays visible in all of it, and there alone.
void check_not_finite(Isa isa) {
  const auto kernels = encoder_kernels<BFloat16, Int8>(isa);
  const KernelScope<BFloat16, Int8> scope(kernels);
  Random random(12);
  constexpr std::int64_t rows = 5, columns = 64;
  const auto weight = pack<Int8>(random.matrix(32, columns, 1).view());
  const std::vector<float> ones(columns, 1.0F), zeros(columns, 0.0F);
  for (const float bad : {NAN, -INFINITY}) {
    Rows<BFloat16> input = random.rows<BFloat16>(rows, columns);
    Rows<float> values = random.rows<float>(rows, columns), sums(rows, 32);
    input.at(2, 37) = to_bf16(bad), values.at(2, 37) = bad;
    kernels.accumulate(
        {input.values.data(), input.stride, rows, &weight, sums.values.data(), sums.stride});
    Rows<Int8> normalised(rows, columns);
    kernels.layer_norm({values.values.data(), values.stride, rows, columns, ones.data(),
                        zeros.data(), 1e-12F, nullptr, normalised.values.data(),
                        normalised.stride});
    Rows<BFloat16> output(rows, 32);
    kernels.linear({normalised.values.data(), normalised.stride, rows, &weight, 0, 1, zeros.data(),
                    Activation::none, output.values.data(), output.stride});
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < 32; ++c) {
        EXPECT_EQ(std::isfinite(sums.at(r, c)), r != 2) << to_string(isa) << " " << bad;
        EXPECT_EQ(std::isfinite(to_float(output.at(r, c))), r != 2) << to_string(isa) << " " << bad;
      }
  }
}

// Layer norm by the formula, the copy times the shares; the residual stream knows nothing of them.
void check_shares(Isa isa) {
  const auto kernels = encoder_kernels<BFloat16, Int8>(isa);
  const KernelScope<BFloat16, Int8> scope(kernels);
  Random random(13);
  constexpr std::int64_t rows = 3, columns = 72;
  Rows<float> values = random.rows<float>(rows, columns, 3), before = values.copy();
  const auto gamma = random.vector(columns), beta = random.vector(columns);
  std::vector<float> shares = random.vector(columns);
  for (float& share : shares) share = 0.5F + std::abs(share);
  Rows<Int8> output(rows, columns);
  kernels.layer_norm({values.values.data(), values.stride, rows, columns, gamma.data(), beta.data(),
                      1e-5F, nullptr, output.values.data(), output.stride, false, shares.data()});
  for (std::int64_t r = 0; r < rows; ++r) {
    double mean = 0, square = 0, largest = 0;
    for (std::int64_t c = 0; c < columns; ++c) mean += before.at(r, c) / double{columns};
    for (std::int64_t c = 0; c < columns; ++c)
      square += std::pow(before.at(r, c) - mean, 2) / double{columns};
    std::vector<double> expected;
    for (std::size_t i = 0; i < columns; ++i) {
      const auto c = static_cast<std::int64_t>(i);
      expected.push_back((before.at(r, c) - mean) / std::sqrt(square + 1e-5) * gamma[i] + beta[i]);
      largest = std::max(largest, std::abs(expected[i] * shares[i]));
      ASSERT_NEAR(values.at(r, c), expected[i], 4e-6) << to_string(isa);
    }
    for (std::size_t i = 0; i < columns; ++i)
      ASSERT_NEAR(value(output, r, static_cast<std::int64_t>(i)), expected[i] * shares[i],
                  largest / 127 * 0.501)
          << to_string(isa) << " " << r << "," << i;
  }
}

class EveryLevelInt8 : public testing::TestWithParam<Isa> {};
TEST_P(EveryLevelInt8, PiecesHaveScalesOfTheirOwn) { check_pieces(GetParam()); }
TEST_P(EveryLevelInt8, IntegersAreTheNearest) { check_integers(GetParam()); }
TEST_P(EveryLevelInt8, WhatIsNotFiniteStaysVisible) { check_not_finite(GetParam()); }
TEST_P(EveryLevelInt8, SharesMultiplyWhatBecomesIntegers) { check_shares(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Levels, EveryLevelInt8, testing::ValuesIn(supported_isas()),
                         [](const auto& level) {
                           std::string name(to_string(level.param));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace gpuhpc::kernels
