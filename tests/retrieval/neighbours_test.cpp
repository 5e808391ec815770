#include "gpuhpc/retrieval/neighbours.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "fixture.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/retrieval/tfidf.hpp"
#include "rows.hpp"

namespace gpuhpc {
namespace {

using testing_fixture::random_rows;
using testing_fixture::sparse_rows;

// All pairs in double, sorted: (weight descending, index ascending).
std::vector<std::pair<double, std::int32_t>> sorted_scores(const Matrix& queries,
                                                           const Matrix& indexed,
                                                           std::int64_t query, bool same) {
  std::vector<std::pair<double, std::int32_t>> all;
  for (std::int64_t i = 0; i < indexed.rows; ++i) {
    if (same && i == query) continue;
    const auto a = queries.row(query), b = indexed.row(i);
    all.emplace_back(-std::inner_product(a.begin(), a.end(), b.begin(), 0.0),
                     static_cast<std::int32_t>(i));
  }
  std::sort(all.begin(), all.end());
  for (auto& [weight, index] : all) weight = -weight;
  return all;
}

void expect_exact(const Neighbours& found, const Matrix& queries, const Matrix& indexed,
                  bool same) {
  ASSERT_EQ(found.rows(), queries.rows);
  for (std::int64_t q = 0; q < queries.rows; ++q) {
    const auto expected = sorted_scores(queries, indexed, q, same);
    for (std::int64_t j = 0; j < found.k; ++j) {
      const auto at = static_cast<std::size_t>(q * found.k + j);
      const bool exists =
          j < std::ssize(expected) && expected[static_cast<std::size_t>(j)].first > 1e-7;
      ASSERT_EQ(found.indices[at] >= 0, exists) << "query " << q << " place " << j;
      if (!exists) continue;
      ASSERT_NEAR(found.weights[at], expected[static_cast<std::size_t>(j)].first, 1e-5);
      // The same neighbour, unless rounding made a tie of two.
      const auto self = std::find_if(expected.begin(), expected.end(),
                                     [&](const auto& e) { return e.second == found.indices[at]; });
      ASSERT_NE(self, expected.end());
      ASSERT_NEAR(self->first, expected[static_cast<std::size_t>(j)].first, 1e-5);
    }
  }
}

TEST(Neighbours, DenseIsExact) {
  const Matrix rows = random_rows(1100, 24), others = random_rows(37, 24);
  expect_exact(dense_neighbours(rows.view(), rows.view(), {0, 1100}, QuerySet::same), rows, rows,
               true);
  expect_exact(dense_neighbours(others.view(), rows.view(), {0, 37}, QuerySet::other), others, rows,
               false);
}

TEST(Neighbours, SeveralIndexedBlocksAreSearched) {
  const Matrix rows = random_rows(9001, 8), others = random_rows(5, 8);
  expect_exact(dense_neighbours(others.view(), rows.view(), {0, 5}, QuerySet::other), others, rows,
               false);
}

TEST(Neighbours, TiesGoToTheLowerIndexAndZeroRowsHaveNone) {
  Matrix rows(7, 2);
  for (const std::int64_t i : {0, 1, 2, 3, 5}) rows.row(i)[0] = 1;  // row 4: zero vector
  rows.row(6)[0] = -1;
  NeighbourOptions options;
  options.k = 3;
  const auto check = [](const Neighbours& found) {
    EXPECT_EQ(std::vector(found.indices.begin(), found.indices.begin() + 6),
              (std::vector<std::int32_t>{1, 2, 3, 0, 2, 3}));
    EXPECT_EQ(std::vector(found.indices.begin() + 12, found.indices.begin() + 18),
              (std::vector<std::int32_t>{-1, -1, -1, 0, 1, 2}));
  };
  const Neighbours dense =
      dense_neighbours(rows.view(), rows.view(), {0, 7}, QuerySet::same, options);
  check(dense);
  EXPECT_EQ(dense.indices[18], -1);  // only negative cosines
  const SparseMatrix sparse = sparse_rows(rows);
  check(SparseIndex(sparse).exact(sparse, {0, 7}, QuerySet::same, options));
  check(SparseIndex(sparse).approximate(sparse, sparse, {0, 7}, QuerySet::same, options));
}

TEST(Neighbours, FewerRowsThanK) {
  const Matrix rows = random_rows(4, 300);
  const Neighbours found = dense_neighbours(rows.view(), rows.view(), {0, 4}, QuerySet::same);
  expect_exact(found, rows, rows, true);
  const Matrix none(0, 300);
  EXPECT_EQ(dense_neighbours(none.view(), rows.view(), {0, 0}, QuerySet::other).rows(), 0);
  EXPECT_EQ(dense_neighbours(rows.view(), none.view(), {0, 4}, QuerySet::other).indices,
            std::vector<std::int32_t>(40, -1));
}

TEST(Neighbours, BlocksGiveTheBitsOfTheWhole) {
  const Matrix rows = random_rows(1300, 64);
  const SparseMatrix sparse = sparse_rows(rows);
  const SparseIndex index(sparse);
  const Neighbours dense = dense_neighbours(rows.view(), rows.view(), {0, 1300}, QuerySet::same);
  const Neighbours inverted = index.exact(sparse, {0, 1300}, QuerySet::same, {}, 2);
  for (const int ranks : {2, 3, 4, 7}) {
    Neighbours dense_parts{10, {}, {}}, sparse_parts{10, {}, {}};
    for (int rank = 0; rank < ranks; ++rank) {
      const Range mine = items_of_rank(1300, neighbour_block, rank, ranks);
      for (const auto& [part, all] :
           {std::pair{dense_neighbours(rows.view(), rows.view(), mine, QuerySet::same),
                      &dense_parts},
            std::pair{index.exact(sparse, mine, QuerySet::same), &sparse_parts}}) {
        all->indices.insert(all->indices.end(), part.indices.begin(), part.indices.end());
        all->weights.insert(all->weights.end(), part.weights.begin(), part.weights.end());
      }
    }
    EXPECT_EQ(dense_parts.indices, dense.indices);
    EXPECT_EQ(dense_parts.weights, dense.weights);
    EXPECT_EQ(sparse_parts.indices, inverted.indices);
    EXPECT_EQ(sparse_parts.weights, inverted.weights);
  }
  EXPECT_THROW(dense_neighbours(rows.view(), rows.view(), {0, 100}, QuerySet::same), Error);
}

TEST(Neighbours, SparseIsScikitLearns) {
  const auto texts = testing_fixture::texts();
  const SparseMatrix rows = TfidfModel::fit(texts).transform(texts);
  const SparseIndex index(rows);
  const Neighbours found = index.exact(rows, {0, rows.rows()}, QuerySet::same, {}, 2);
  const auto expected = testing_fixture::lines("neighbours.tsv");
  ASSERT_EQ(found.rows(), std::ssize(expected));
  std::int64_t other_names = 0, all = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto best = testing_fixture::fields(expected[i]);
    for (std::size_t j = 0; j < 10; ++j) {
      const std::int32_t index_found = found.indices[i * 10 + j];
      ASSERT_EQ(index_found >= 0, j < best.size()) << "text " << i;
      if (j >= best.size()) continue;
      const std::size_t colon = best[j].find(':');
      EXPECT_NEAR(found.weights[i * 10 + j], std::stod(best[j].substr(colon + 1)), 2e-6)
          << "text " << i;
      other_names += index_found != std::stoi(best[j].substr(0, colon)) ? 1 : 0;
      ++all;
    }
  }
  EXPECT_LE(other_names, all / 100);  // equal cosines whose sums were rounded in another order
}

TEST(Neighbours, SparseMatchesDense) {
  Matrix rows = random_rows(700, 40), others = random_rows(30, 40);
  for (Matrix* matrix : {&rows, &others}) {
    for (float& value : matrix->values) value = std::max(value, 0.0F);
  }
  const SparseMatrix sparse = sparse_rows(rows), queries = sparse_rows(others);
  const SparseIndex index(sparse);
  expect_exact(index.exact(queries, {0, 30}, QuerySet::other), others, rows, false);
  expect_exact(index.exact(sparse, {0, 700}, QuerySet::same), rows, rows, true);
  NeighbourOptions all;  // enough postings and candidates for the whole: the exact bits
  all.postings = 1000000;
  all.rescored = 700;
  const Neighbours exact = index.exact(queries, {0, 30}, QuerySet::other),
                   budgeted = index.approximate(queries, sparse, {0, 30}, QuerySet::other, all);
  EXPECT_EQ(exact.indices, budgeted.indices);
  EXPECT_EQ(exact.weights, budgeted.weights);
}

TEST(Neighbours, BudgetOfPostingsIsKept) {
  // Column 0 is in every row (long list), column i + 1 in rows 2i and 2i + 1 only.
  SparseMatrix rows;
  rows.columns_count = 101;
  for (std::int32_t i = 0; i < 200; ++i) {
    rows.columns.insert(rows.columns.end(), {0, i / 2 + 1});
    rows.values.insert(rows.values.end(), {0.6F, 0.8F});
    rows.offsets.push_back(std::ssize(rows.columns));
  }
  NeighbourOptions options;
  options.postings = 10;
  options.k = 2;
  const SparseIndex index(rows);
  const Neighbours found = index.approximate(rows, rows, {0, 200}, QuerySet::same, options);
  for (std::int32_t i = 0; i < 200; ++i) {
    EXPECT_EQ(found.indices[static_cast<std::size_t>(2 * i)],
              i ^ 1);  // the rare column finds the partner
    EXPECT_EQ(found.indices[static_cast<std::size_t>(2 * i) + 1],
              -1);  // the long list does not fit
    EXPECT_FLOAT_EQ(found.weights[static_cast<std::size_t>(2 * i)],
                    1.0F);  // scored exactly, long column included
  }
  SparseMatrix common;  // a query with the long column alone: the first rows of its list
  common.columns_count = 101;
  common.columns = {0};
  common.values = {1};
  common.offsets = {0, 1};
  const Neighbours few = index.approximate(common, rows, {0, 1}, QuerySet::other, options);
  EXPECT_EQ(few.indices, (std::vector<std::int32_t>{0, 1}));
}

TEST(Neighbours, AverageRowsSumToOne) {
  const Neighbours a{2, {1, 2, 0, -1, -1, -1, 3, -1}, {0.6F, 0.2F, 0.5F, 0, 0, 0, 0.1F, 0}};
  const Neighbours b{2, {2, 3, -1, -1, -1, -1, 3, 0}, {0.3F, 0.3F, 0, 0, 0, 0, 0.3F, 0.1F}};
  const SparseMatrix mean = average_neighbours(a, b, 4);
  EXPECT_EQ(mean.offsets, (std::vector<std::int64_t>{0, 3, 4, 4, 6}));
  EXPECT_EQ(mean.columns, (std::vector<std::int32_t>{1, 2, 3, 0, 0, 3}));
  const std::vector<float> weights{0.375F, 0.375F, 0.25F, 1, 0.125F, 0.875F};
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_FLOAT_EQ(mean.values[i], weights[i]) << i;
  EXPECT_THROW(average_neighbours(a, Neighbours{2, {}, {}}, 4), Error);
}

TEST(Neighbours, NearestInBothIsTheFirstOfOneThatTheOtherHas) {
  // Rows: the second of the first set; none within three; -1 is nobody; the first of both.
  const Neighbours words{4, {7, 2, 5, 9, 1, 2, 3, 8, 4, -1, -1, -1, 6, 0, 1, 2}, {}};
  const Neighbours vectors{5, {2, 5, 3, 7, 0, 5, 6, 7, 1, 8, 0, -1, -1, -1, -1, 6, 0, 1, 2, 3}, {}};
  EXPECT_EQ(nearest_in_both(words, vectors, 3), (std::vector<std::int32_t>{2, -1, -1, 6}));
  EXPECT_EQ(nearest_in_both(words, vectors, 9), (std::vector<std::int32_t>{7, 1, -1, 6}));
}

TEST(Neighbours, RecallCountsHits) {
  const Neighbours exact{2, {1, 2, 0, -1}, {1, 1, 1, 0}}, found{2, {2, 5, 3, -1}, {1, 1, 1, 0}};
  EXPECT_DOUBLE_EQ(recall(exact, exact), 1);
  EXPECT_DOUBLE_EQ(recall(found, exact), 1.0 / 3);
}

Neighbours search_all(DenseIndex& index, const Matrix& rows, const Matrix& queries, QuerySet set) {
  index.set_lists(index.assign({0, rows.rows}));
  return index.search(queries.view(), {0, queries.rows}, set);
}

TEST(DenseIndex, AllListsSearchedIsExact) {
  const Matrix rows = random_rows(900, 32), others = random_rows(40, 32);
  NeighbourOptions options;
  options.lists = 12;
  options.probes = 12;
  DenseIndex index(rows.view(), options);
  expect_exact(search_all(index, rows, rows, QuerySet::same), rows, rows, true);
  expect_exact(search_all(index, rows, others, QuerySet::other), others, rows, false);
}

TEST(DenseIndex, FewListsFindMost) {
  const Matrix rows = random_rows(6000, 32, 60);
  NeighbourOptions options;
  options.probes = 8;
  DenseIndex index(rows.view(), options);
  EXPECT_EQ(index.lists(), 80);
  const Neighbours exact = dense_neighbours(rows.view(), rows.view(), {0, 6000}, QuerySet::same);
  const double wide = recall(search_all(index, rows, rows, QuerySet::same), exact);
  EXPECT_GE(wide, 0.95);
  options.probes = 1;
  DenseIndex narrow(rows.view(), options);
  EXPECT_LT(recall(search_all(narrow, rows, rows, QuerySet::same), exact), wide);
}

TEST(DenseIndex, SmallAndEmptySets) {
  const Matrix few = random_rows(3, 16), none(0, 16);
  DenseIndex index(few.view(), {});
  expect_exact(search_all(index, few, few, QuerySet::same), few, few, true);
  DenseIndex empty(none.view(), {});
  EXPECT_EQ(search_all(empty, none, few, QuerySet::other).indices,
            std::vector<std::int32_t>(30, -1));
  DenseIndex unready(few.view(), {});
  EXPECT_THROW(unready.search(few.view(), {0, 3}, QuerySet::same), Error);
}

}  // namespace
}  // namespace gpuhpc
