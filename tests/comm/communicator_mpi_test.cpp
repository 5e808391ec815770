// One conformance suite: the world of this launch (1, 2 or 4 ranks).
#include <gtest/gtest.h>

#include <numeric>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/comm/together.hpp"

namespace gpuhpc {
namespace {

class World : public testing::Test {
 protected:
  // The MPI session is main's; its world is asked for anew by each test.
  World() : comm_(MpiSession::world()) {}
  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }
  std::unique_ptr<Communicator> comm_;
};

TEST_F(World, AllReduceSumsMaxesAndMins) {
  std::vector<float> values = {static_cast<float>(rank()), 1.0f, -static_cast<float>(rank())};
  auto sums = values, most = values, least = values;
  comm_->all_reduce(std::span<float>(sums));
  comm_->all_reduce(std::span<float>(most), Reduce::max);
  comm_->all_reduce(std::span<float>(least), Reduce::min);
  const float n = static_cast<float>(size());
  EXPECT_EQ(sums, (std::vector<float>{n * (n - 1) / 2, n, -n * (n - 1) / 2}));
  EXPECT_EQ(most, (std::vector<float>{n - 1, 1, 0}));
  EXPECT_EQ(least, (std::vector<float>{0, 1, 1 - n}));
  EXPECT_EQ(comm_->all_reduce_value<std::int64_t>(std::int64_t{1} << 40), (std::int64_t{1} << 40) * size());
}
TEST_F(World, EmptyBuffersAreFine) {
  std::vector<float> nothing;
  comm_->all_reduce(std::span<float>(nothing));
  comm_->broadcast(std::span<float>(nothing), 0);
  EXPECT_TRUE(comm_->all_gather_vector(std::span<const float>(nothing)).empty());
}
TEST_F(World, BroadcastFromEveryRoot) {
  for (int root = 0; root < size(); ++root) EXPECT_EQ(comm_->broadcast_string(rank() == root ? "from " + std::to_string(root) : "", root), "from " + std::to_string(root));
}
TEST_F(World, RaggedGatherKeepsRankOrder) {
  const std::vector<std::int32_t> mine(static_cast<std::size_t>(rank()) + 1, rank());
  std::vector<std::int32_t> expected;
  for (int r = 0; r < size(); ++r) expected.insert(expected.end(), static_cast<std::size_t>(r) + 1, r);
  EXPECT_EQ(comm_->all_gather_vector(std::span<const std::int32_t>(mine)), expected);
}
TEST_F(World, ReduceScatterGivesEachRankItsSlice) {
  std::vector<double> send(static_cast<std::size_t>(size()) * 3);
  std::iota(send.begin(), send.end(), 0.0);
  std::vector<double> mine(3);
  comm_->reduce_scatter(send.data(), mine.data(), 3, DataType::float64, Reduce::sum);
  for (int i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(mine[static_cast<std::size_t>(i)], size() * (rank() * 3 + i));
}
TEST_F(World, AnErrorOnOneRankIsThrownOnAll) {
  const int victim = size() - 1;
  try {
    together(*comm_, [&] { if (rank() == victim) throw io_error("disk full on rank {}", victim); });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::io);
    EXPECT_EQ(e.what(), "disk full on rank " + std::to_string(victim));
  }
  together(*comm_, [] {});  // and the ranks are still in step
  EXPECT_THROW(on_root(*comm_, [] { throw input_error("bad"); }), Error);
}
TEST_F(World, NodeRanksCountTheRanksOfThisHost) {
  EXPECT_EQ(comm_->node_size(), size());
  EXPECT_EQ(comm_->node_rank(), rank());
  EXPECT_FALSE(comm_->host().empty());
}

}  // namespace
}  // namespace gpuhpc
