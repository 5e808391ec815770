#include <gtest/gtest.h>

#include "fixture.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"
#include "gpuhpc/retrieval/tfidf.hpp"
#include "rows.hpp"

namespace gpuhpc {
namespace {

// Every rank works on its own part only; the gathered result must have the bits that one rank alone
// computes.
void expect_gathered(Communicator& comm, const Neighbours& part, const Neighbours& whole) {
  EXPECT_EQ(comm.all_gather_v(std::span<const std::int32_t>(part.indices)), whole.indices);
  EXPECT_EQ(comm.all_gather_v(std::span<const float>(part.weights)), whole.weights);
}

TEST(RetrievalOverRanks, TfidfAndNeighboursAreBitEqual) {
  const auto comm = MpiSession::world();
  auto texts = testing_fixture::texts();
  for (int copy = 0; copy < 5; ++copy) {  // enough for several blocks of queries
    for (std::size_t i = 0; i < 181; ++i)
      texts.push_back(texts[i] + " copy" + std::to_string(copy));
  }
  const Range mine = items_of_rank(std::ssize(texts), neighbour_block, comm->rank(), comm->size());
  const auto part_of = [&](const auto& all) {
    return std::span(all).subspan(static_cast<std::size_t>(mine.first),
                                  static_cast<std::size_t>(mine.size()));
  };
  DocumentFrequencies part, merged, whole;
  part.add(part_of(texts));
  merged.merge(comm->all_gather_v(std::span<const std::int64_t>(part.pack())));
  whole.add(texts);
  EXPECT_EQ(merged.pack(), whole.pack());
  const TfidfModel model(merged);
  const SparseMatrix all = model.transform(texts), rows = model.transform(part_of(texts));
  EXPECT_EQ(comm->all_gather_v(std::span<const float>(rows.values)), all.values);
  EXPECT_EQ(comm->all_gather_v(std::span<const std::int32_t>(rows.columns)), all.columns);
  const SparseIndex index(all);
  expect_gathered(*comm, index.exact(all, mine, QuerySet::same),
                  index.exact(all, {0, all.rows()}, QuerySet::same));
  expect_gathered(*comm, index.approximate(all, all, mine, QuerySet::same),
                  index.approximate(all, all, {0, all.rows()}, QuerySet::same));
}

TEST(RetrievalOverRanks, DenseNeighboursAreBitEqual) {
  const auto comm = MpiSession::world();
  const Matrix rows = testing_fixture::random_rows(2300, 384, 20);
  const Range mine = items_of_rank(rows.rows, neighbour_block, comm->rank(), comm->size());
  expect_gathered(*comm, dense_neighbours(rows.view(), rows.view(), mine, QuerySet::same),
                  dense_neighbours(rows.view(), rows.view(), {0, rows.rows}, QuerySet::same));
}

TEST(RetrievalOverRanks, DenseIndexIsBitEqual) {
  const auto comm = MpiSession::world();
  const std::int64_t count = 3 * DenseIndex::query_block + 100;
  const Matrix rows = testing_fixture::random_rows(count, 16, 50);
  const Range mine = items_of_rank(count, DenseIndex::query_block, comm->rank(), comm->size());
  DenseIndex dealt(rows.view(), {}), alone(rows.view(), {});
  dealt.set_lists(comm->all_gather_v(std::span<const std::int32_t>(dealt.assign(mine))));
  alone.set_lists(alone.assign({0, count}));
  expect_gathered(*comm, dealt.search(rows.view(), mine, QuerySet::same),
                  alone.search(rows.view(), {0, count}, QuerySet::same));
}

}  // namespace
}  // namespace gpuhpc
