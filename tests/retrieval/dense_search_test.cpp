// The exact dense search against all products in double. Rows are whole numbers times a power of
// two, so that sums in double are exact in any order and the answer has one set of bytes.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/kernels/isa.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"

namespace gpuhpc {
namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN(),
                infinite = std::numeric_limits<float>::infinity();

// Entries in [-2^bits, 2^bits] times 2^-bits.
Matrix grid_rows(std::int64_t rows, std::int64_t columns, int bits, std::uint64_t seed = 1) {
  Matrix out(rows, columns);
  RandomStream random(seed, static_cast<std::uint64_t>(rows * columns));
  const std::int64_t most = std::int64_t{1} << bits;
  for (float& value : out.values) {
    const auto number =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(2 * most + 1))) - most;
    value = std::ldexp(static_cast<float>(number), -bits);
  }
  return out;
}

// `base` in each row, every entry off by up to 2^-12.
Matrix near_duplicates(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  const Matrix base = grid_rows(1, columns, 8, seed);
  Matrix out = grid_rows(rows, columns, 8, seed + 1);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < static_cast<std::size_t>(columns); ++j)
      out.row(i)[j] = base.row(0)[j] + std::ldexp(out.row(i)[j], -12);
  return out;
}

// All products in double, rounded to float, sorted.
Neighbours by_brute_force(const Matrix& queries, const Matrix& indexed, QuerySet set,
                          const NeighbourOptions& options) {
  Neighbours out{options.k, {}, {}};
  for (std::int64_t q = 0; q < queries.rows; ++q) {
    std::vector<std::pair<float, std::int32_t>> all;
    for (std::int64_t i = 0; i < indexed.rows; ++i) {
      if (set == QuerySet::same && i == q) continue;
      const auto a = queries.row(q), b = indexed.row(i);
      double sum = 0;
      for (std::size_t j = 0; j < a.size(); ++j) sum += static_cast<double>(a[j]) * b[j];
      const auto weight = static_cast<float>(sum);
      if (weight > options.above) all.emplace_back(-weight, static_cast<std::int32_t>(i));
    }
    std::sort(all.begin(), all.end());
    for (std::int64_t j = 0; j < options.k; ++j) {
      const bool exists = j < std::ssize(all);
      out.indices.push_back(exists ? all[static_cast<std::size_t>(j)].second : -1);
      out.weights.push_back(exists ? -all[static_cast<std::size_t>(j)].first : 0);
    }
  }
  return out;
}

// Each instruction set with products in fp32 and in bf16, where the plain kernels stand in for an
// instruction set that has none.
std::vector<Screening> all_screenings() {
  std::vector<Screening> all;
  for (const kernels::Isa isa : kernels::supported_isas()) {
    all.push_back({isa, false});
    if (isa == kernels::Isa::generic || isa >= kernels::Isa::avx512_bf16)
      all.push_back({isa, true});
  }
  return all;
}

class DenseSearch : public testing::TestWithParam<Screening> {
 protected:
  void expect_brute_force(const Matrix& queries, const Matrix& indexed, QuerySet set,
                          const NeighbourOptions& options = {}) const {
    const Neighbours expected = by_brute_force(queries, indexed, set, options),
                     found = dense_neighbours(queries.view(), indexed.view(), {0, queries.rows},
                                              set, options, GetParam());
    ASSERT_EQ(found.k, options.k);
    EXPECT_EQ(found.indices, expected.indices);
    EXPECT_EQ(found.weights, expected.weights);
  }
};

TEST_P(DenseSearch, FindsWhatBruteForceFinds) {
  for (const std::int64_t width : {1, 20, 32, 384}) {
    const Matrix rows = grid_rows(700, width, 12), others = grid_rows(45, width, 12, 2);
    expect_brute_force(rows, rows, QuerySet::same);
    NeighbourOptions options;
    for (options.k = 1; options.k <= 1000; options.k *= 10)
      expect_brute_force(others, rows, QuerySet::other, options);
  }
}

TEST_P(DenseSearch, SeveralBlocksOfIndexedRows) {
  expect_brute_force(grid_rows(100, 20, 12), grid_rows(9000, 20, 12, 2), QuerySet::other);
}

// Differences that rounding to bf16 hides, whose products it puts into another order.
TEST_P(DenseSearch, RowsNearerThanBf16CanTellApart) {
  const Matrix rows = near_duplicates(1500, 384, 3), few = near_duplicates(40, 20, 3);
  expect_brute_force(rows, rows, QuerySet::same);
  expect_brute_force(few, few, QuerySet::same);
}

// Rows that all round to ones, and have lost as much as the bound allows.
TEST_P(DenseSearch, RowsThatRoundToTheSameRow) {
  Matrix ones(20, 32), rows(2000, 32);
  std::ranges::fill(ones.values, 1.0F);
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    const std::int64_t more = i % 96 == 95 ? 0 : i * 379 % 1024;  // none: with the last of a tile
    std::ranges::fill(rows.row(i), 1 + std::ldexp(static_cast<float>(more), -18));
  }
  expect_brute_force(ones, rows, QuerySet::other);
  // Now the queries lose what they have of the first half, which is where rows differ.
  Matrix halves(20, 32), twos(2000, 32);
  for (std::int64_t i = 0; i < halves.rows; ++i)
    for (std::size_t j = 0; j < 32; ++j)
      halves.row(i)[j] = j < 16 ? 1 + std::ldexp(1.F, -9) + std::ldexp(1.F, -10) : 1;
  for (std::int64_t i = 0; i < twos.rows; ++i)
    for (std::int64_t j = 0; j < 32 && i % 96 != 95; ++j)  // the last of a tile has no length
      twos.row(i)[static_cast<std::size_t>(j)] = j >= i * 5 % 16 && j < i * 5 % 16 + 16 ? 2 : 1;
  expect_brute_force(halves, twos, QuerySet::other);
}

// Differences of the size of fp32 rounding: one entry of otherwise equal rows.
TEST_P(DenseSearch, RowsNearerThanFp32SumsCanTellApart) {
  const Matrix base = grid_rows(1, 384, 12, 5);
  Matrix rows(900, 384), queries = grid_rows(50, 384, 12, 6);
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    std::copy_n(base.values.begin(), 384, rows.row(i).begin());
    const auto entry = static_cast<std::size_t>(i * 7 % 384);
    rows.row(i)[entry] += std::ldexp(static_cast<float>(i % 5 - 2), -18);
  }
  for (std::int64_t i = 0; i < queries.rows; ++i)  // of any sign, so that weights are near zero
    queries.row(i)[0] = std::ldexp(std::round(std::ldexp(queries.row(i)[0], 4)), -4);
  NeighbourOptions options;
  options.above = -1000;
  expect_brute_force(queries, rows, QuerySet::other, options);
}

TEST_P(DenseSearch, TiesGoToTheLowerIndexInEveryBlock) {
  const Matrix rows = grid_rows(5000, 6, 0), others = grid_rows(60, 6, 0, 2);  // -1, 0 and 1
  expect_brute_force(others, rows, QuerySet::other);
  const Matrix small = grid_rows(600, 6, 0);
  expect_brute_force(small, small, QuerySet::same);
}

// Lengths from 2^-140 to 2^80, and zeros: more than fp32 sums can hold.
TEST_P(DenseSearch, RowsOfAnyLength) {
  for (const std::int64_t width : {20, 384}) {
    Matrix rows = grid_rows(800, width, 8), others = grid_rows(64, width, 8, 2);
    for (Matrix* matrix : {&rows, &others})
      for (std::int64_t i = 0; i < matrix->rows; ++i)
        for (float& value : matrix->row(i))
          value = i % 11 == 3 ? 0 : std::ldexp(value, static_cast<int>(i * 13 % 221) - 140);
    expect_brute_force(others, rows, QuerySet::other);
    expect_brute_force(rows, rows, QuerySet::same);
  }
}

// Lengths that differ, but not by so much that only the long ones count.
TEST_P(DenseSearch, LongAndShortRowsTogether) {
  Matrix rows = near_duplicates(1200, 64, 9);
  for (std::int64_t i = 0; i < rows.rows; ++i)
    for (float& value : rows.row(i)) value = std::ldexp(value, i % 100 == 7 ? 6 : -6);
  expect_brute_force(rows, rows, QuerySet::same);
  NeighbourOptions options;
  options.k = 40;
  expect_brute_force(rows, rows, QuerySet::same, options);
}

TEST_P(DenseSearch, OnlyWeightsAboveTheBoundCount) {
  const Matrix rows = grid_rows(500, 20, 6), near = near_duplicates(300, 20, 4);
  const Neighbours all = by_brute_force(rows, rows, QuerySet::same, {});
  NeighbourOptions options;
  for (const float above : {-1000.F, -2.F, 0.F, 1.5F, all.weights[25], 1000.F}) {
    options.above = above;
    expect_brute_force(rows, rows, QuerySet::same, options);
  }
  options.above = by_brute_force(near, near, QuerySet::same, {}).weights[5];  // exactly: not above
  expect_brute_force(near, near, QuerySet::same, options);
}

TEST_P(DenseSearch, WhatIsNoNumberIsNoNeighbour) {
  Matrix rows = grid_rows(600, 20, 8), others = grid_rows(40, 20, 8, 2);
  for (Matrix* matrix : {&rows, &others}) {
    matrix->row(3)[7] = not_a_number;
    matrix->row(9)[0] = infinite;
    matrix->row(11)[1] = -infinite;
    matrix->row(12)[1] = infinite;
    matrix->row(12)[2] = not_a_number;
    std::ranges::fill(matrix->row(20), std::numeric_limits<float>::max());
    std::ranges::fill(matrix->row(33), not_a_number);
  }
  expect_brute_force(others, rows, QuerySet::other);
  expect_brute_force(rows, rows, QuerySet::same);
}

TEST_P(DenseSearch, NoRowsAndNoColumns) {
  const Matrix rows = grid_rows(5, 20, 8), none(0, 20), empty(7, 0);
  expect_brute_force(none, rows, QuerySet::other);
  expect_brute_force(rows, none, QuerySet::other);
  expect_brute_force(empty, empty, QuerySet::same);
}

// Rows of no grid: sums in double are rounded, and still the bytes are those of every cut.
TEST_P(DenseSearch, SameBytesForEveryCutAndThread) {
  const std::int64_t count = 16 * neighbour_block + 700;  // more than are taken at once
  Matrix queries(count, 52), indexed(300, 52);
  RandomStream random(11, 0);
  for (Matrix* matrix : {&queries, &indexed})
    for (float& value : matrix->values) value = static_cast<float>(random.uniform() - 0.4);
  const auto search = [&](Range rows, const Screening& screening) {
    return dense_neighbours(queries.view(), indexed.view(), rows, QuerySet::other, {}, screening);
  };
  const Neighbours whole = search({0, count}, GetParam());
  const int threads = at::get_num_threads();
  for (const int ranks : {3, 5}) {
    at::set_num_threads(ranks - 2);
    Neighbours parts{10, {}, {}};
    for (int rank = 0; rank < ranks; ++rank) {
      const Neighbours part =
          search(items_of_rank(count, neighbour_block, rank, ranks), GetParam());
      parts.indices.insert(parts.indices.end(), part.indices.begin(), part.indices.end());
      parts.weights.insert(parts.weights.end(), part.weights.begin(), part.weights.end());
    }
    EXPECT_EQ(parts.indices, whole.indices);
    EXPECT_EQ(parts.weights, whole.weights);
  }
  at::set_num_threads(threads);
  const Neighbours plain = search({0, count}, {kernels::Isa::generic, false});
  EXPECT_EQ(plain.indices, whole.indices);
  EXPECT_EQ(plain.weights, whole.weights);
}

INSTANTIATE_TEST_SUITE_P(Levels, DenseSearch, testing::ValuesIn(all_screenings()),
                         [](const auto& level) {
                           std::string name(kernels::to_string(level.param.isa));
                           std::ranges::replace(name, '-', '_');
                           return name + (level.param.bf16 ? "_in_bf16" : "_in_fp32");
                         });

}  // namespace
}  // namespace gpuhpc
