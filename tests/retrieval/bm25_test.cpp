#include "gpuhpc/retrieval/bm25.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace gpuhpc {
namespace {

// Phrase 0 everywhere, 1 in groups 0 and 1, 2 in group 2 only, 3 nowhere.
GroupCounts example() {
  GroupCounts counts(4, 4);
  counts.add(0, std::array{0, 1, 1}, 10);
  counts.add(0, std::array{0}, 6);
  counts.add(1, std::array{0, 1}, 4);
  counts.add(2, std::array{0, 2, 2, 2}, 12);
  counts.add(3, std::array{0}, 100);
  return counts;
}

TEST(Bm25, CountsOccurrencesAndDocuments) {
  const GroupCounts counts = example();
  EXPECT_EQ(counts.count(0, 1), 2);
  EXPECT_EQ(counts.documents(0, 1), 1);
  EXPECT_EQ(counts.documents(0, 0), 2);
  EXPECT_EQ(counts.length(0), 16);
}

TEST(Bm25, FormulaWorkedByHand) {
  // Family of groups 0, 1, 2: N = 3, mean length (16 + 4 + 12) / 3.
  const Matrix scores = bm25_scores(example(), std::array{0, 1, 2});
  ASSERT_EQ(scores.rows, 3);
  ASSERT_EQ(scores.columns, 4);
  const double mean = 32.0 / 3;
  const double idf2 = std::log(2.5 / 1.5);
  EXPECT_NEAR(scores.row(2)[2], idf2 * 3 * 2.5 / (3 + 1.5 * (0.25 + 0.75 * 12 / mean)), 1e-6);
  // Idf of phrases 0 and 1 is negative: a quarter of the mean over phrases 0, 1, 2.
  const double floor_value = 0.25 * (std::log(0.5 / 3.5) + std::log(1.5 / 2.5) + idf2) / 3;
  EXPECT_NEAR(scores.row(0)[1], floor_value * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 16 / mean)), 1e-6);
  EXPECT_EQ(scores.row(1)[2], 0);
  EXPECT_EQ(scores.row(0)[3], 0);
}

TEST(Bm25, EmptyGroupsScoreNothing) {
  const GroupCounts counts(2, 3);
  for (const float value : bm25_scores(counts, std::array{0, 1}).values) EXPECT_EQ(value, 0);
  EXPECT_EQ(bm25_scores(counts, {}).rows, 0);
}

}  // namespace
}  // namespace gpuhpc
