#pragma once
// One suite for every communicator. A backend runs a body on each rank: of this launch, or on
// threads of this process.
#include <gtest/gtest.h>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"

namespace gpuhpc {

struct Backend {
  std::string name;
  std::function<void(const std::function<void(Communicator&)>& body)> run;
  bool keeps_tree = true;  // tree_sum gives the tree's bits, not only a sum
};
inline std::ostream& operator<<(std::ostream& out, const Backend& backend) {
  return out << backend.name;
}

template <typename T>
constexpr DataType wire_type() {
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    return DataType::bfloat16;
  else if constexpr (std::is_same_v<T, c10::Half>)
    return DataType::float16;
  else
    return data_type_of<T>();
}

class Conformance : public testing::TestWithParam<Backend> {
 protected:
  void on_ranks(const std::function<void(Communicator&)>& body) { GetParam().run(body); }
};

// Small whole numbers: exact in every type, whatever the order of the sum.
template <typename T>
T element_of(int rank, std::int64_t i) {
  return static_cast<T>(static_cast<float>((rank + 1) * (i % 5)));
}

template <typename T>
std::vector<T> values_of(int rank, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = element_of<T>(rank, i);
  return values;
}

template <typename T>
std::vector<T> reduced(int size, std::int64_t count, Reduce reduce) {
  std::vector<T> values(static_cast<std::size_t>(count));
  const int ranks = reduce == Reduce::sum   ? size * (size + 1) / 2
                    : reduce == Reduce::max ? size
                                            : 1;
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = static_cast<T>(static_cast<float>(ranks * (i % 5)));
  return values;
}

template <typename T>
void expect_reductions(Communicator& comm) {
  for (const std::int64_t count : {0, 1, 3, 1000, 4099, 70'001}) {
    for (const Reduce reduce : {Reduce::sum, Reduce::max, Reduce::min}) {
      auto data = values_of<T>(comm.rank(), count);
      comm.all_reduce(data.data(), count, wire_type<T>(), reduce);
      EXPECT_EQ(data, reduced<T>(comm.size(), count, reduce)) << count;
    }
    // reduce_scatter of size x count, then all_gather, is all_reduce.
    const std::int64_t whole = count * comm.size();
    const auto send = values_of<T>(comm.rank(), whole);
    std::vector<T> mine(static_cast<std::size_t>(count)), all(static_cast<std::size_t>(whole));
    comm.reduce_scatter(send.data(), mine.data(), count, wire_type<T>(), Reduce::sum);
    comm.all_gather(mine.data(), count, wire_type<T>(), all.data());
    EXPECT_EQ(all, reduced<T>(comm.size(), whole, Reduce::sum)) << count;
  }
}

TEST_P(Conformance, ReducesEveryTypeAtAnySize) {
  on_ranks([](Communicator& comm) {
    expect_reductions<float>(comm);
    expect_reductions<double>(comm);
    expect_reductions<c10::BFloat16>(comm);
    expect_reductions<c10::Half>(comm);
    expect_reductions<std::int32_t>(comm);
    expect_reductions<std::int64_t>(comm);
    expect_reductions<std::uint8_t>(comm);
  });
}

TEST_P(Conformance, BuffersLongerThanAPieceArrive) {
  on_ranks([](Communicator& comm) {
    const std::int64_t count = (std::int64_t{5} << 20) / 4 * 3 + 7;  // 15 MiB of float32
    auto data = values_of<float>(comm.rank(), count);
    comm.all_reduce(std::span<float>(data));
    EXPECT_EQ(data, reduced<float>(comm.size(), count, Reduce::sum));
    const auto send = values_of<float>(comm.rank(), count * comm.size());
    std::vector<float> mine(static_cast<std::size_t>(count)), all(send.size());
    comm.reduce_scatter(send.data(), mine.data(), count, DataType::float32, Reduce::sum);
    comm.all_gather(mine.data(), count, DataType::float32, all.data());
    EXPECT_EQ(all, reduced<float>(comm.size(), count * comm.size(), Reduce::sum));
  });
}

inline float fraction_of(int rank, std::int64_t i) {
  return std::sin(static_cast<float>(i + 1) * static_cast<float>(rank + 1));
}

// The sum of ranks [first, last) in tree_sum's tree: the first half is the largest power of two.
inline float tree_sum_of(int first, int last, std::int64_t i) {
  if (last - first == 1) return fraction_of(first, i);
  int half = 1;
  while (2 * half < last - first) half *= 2;
  return tree_sum_of(first, first + half, i) + tree_sum_of(first + half, last, i);
}

TEST_P(Conformance, TreeSumsHaveTheBitsOfTheTree) {
  const bool exact = GetParam().keeps_tree;
  on_ranks([exact](Communicator& comm) {
    std::vector<float> data(70'001);
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = fraction_of(comm.rank(), static_cast<std::int64_t>(i));
    comm.all_reduce(data.data(), std::ssize(data), DataType::float32, Reduce::tree_sum);
    for (std::size_t i = 0; i < data.size(); ++i) {
      const float expected = tree_sum_of(0, comm.size(), static_cast<std::int64_t>(i));
      if (exact)
        ASSERT_EQ(data[i], expected) << i;
      else
        ASSERT_NEAR(data[i], expected, 1e-5f) << i;
    }
  });
}

TEST_P(Conformance, SixteenBitSumsAreRoundedFromFloat32) {
  on_ranks([](Communicator& comm) {
    // Ones that bfloat16 alone would lose behind 256, of which float32 loses none. A library that
    // sums hop by hop may round at each.
    std::vector<c10::BFloat16> data(33, c10::BFloat16(comm.rank() == 0 ? 256.0f : 1.0f));
    comm.all_reduce(data.data(), std::ssize(data), DataType::bfloat16, Reduce::sum);
    const float exact = 256.0f + static_cast<float>(comm.size() - 1);
    const float rounded = c10::BFloat16(exact), allowed = GetParam().keeps_tree ? 0.0f : 2.0f;
    for (const c10::BFloat16 value : data) EXPECT_NEAR(static_cast<float>(value), rounded, allowed);
    std::vector<c10::BFloat16> nan(
        1, c10::BFloat16(comm.rank() == 0 ? std::numeric_limits<float>::quiet_NaN() : 1.0f));
    comm.all_reduce(nan.data(), 1, DataType::bfloat16, Reduce::sum);
    EXPECT_TRUE(std::isnan(static_cast<float>(nan[0])));
  });
}

TEST_P(Conformance, EveryRankGetsTheSameBits) {
  on_ranks([](Communicator& comm) {
    std::vector<float> data(10'007);
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = 1.0f / static_cast<float>(i + 1 + static_cast<std::size_t>(comm.rank()) * 17);
    comm.all_reduce(std::span<float>(data));
    std::vector<float> roots = data;
    comm.broadcast(std::span<float>(roots), 0);
    EXPECT_EQ(data, roots);
  });
}

TEST_P(Conformance, BroadcastsFromEveryRoot) {
  on_ranks([](Communicator& comm) {
    for (int root = 0; root < comm.size(); ++root) {
      EXPECT_EQ(
          comm.broadcast_string(comm.rank() == root ? "from " + std::to_string(root) : "", root),
          "from " + std::to_string(root));
      auto data = values_of<c10::Half>(comm.rank() == root ? 1 : 2, 999);
      comm.broadcast(data.data(), 999, DataType::float16, root);
      EXPECT_EQ(data, values_of<c10::Half>(1, 999));
    }
  });
}

TEST_P(Conformance, GathersRaggedPieces) {
  on_ranks([](Communicator& comm) {
    const std::vector<std::int32_t> mine(static_cast<std::size_t>(comm.rank()) * 3,
                                         comm.rank());  // rank 0 has none
    std::vector<std::int32_t> expected;
    for (int r = 0; r < comm.size(); ++r)
      expected.insert(expected.end(), static_cast<std::size_t>(r) * 3, r);
    EXPECT_EQ(comm.all_gather_v(std::span<const std::int32_t>(mine)), expected);
    // Rank r has r + 1 lists, the first of them empty.
    const auto lists_of = [](int rank) {
      std::vector<std::vector<std::int32_t>> lists;
      for (int i = 0; i <= rank; ++i)
        lists.emplace_back(static_cast<std::size_t>(i), 10 * rank + i);
      return lists;
    };
    std::vector<std::vector<std::int32_t>> all;
    for (int r = 0; r < comm.size(); ++r)
      for (auto& list : lists_of(r)) all.push_back(list);
    const auto own = lists_of(comm.rank());
    EXPECT_EQ(comm.all_gather_lists(std::span<const std::vector<std::int32_t>>(own)), all);
  });
}

TEST_P(Conformance, WorksInPlace) {
  on_ranks([](Communicator& comm) {
    for (const std::int64_t count : {5, 40'000}) {
      auto data = values_of<float>(comm.rank(), count * comm.size());
      float* mine = data.data() + comm.rank() * count;
      comm.reduce_scatter(data.data(), mine, count, DataType::float32, Reduce::sum);
      comm.all_gather(mine, count, DataType::float32, data.data());
      EXPECT_EQ(data, reduced<float>(comm.size(), count * comm.size(), Reduce::sum));
    }
  });
}

TEST_P(Conformance, StartedWorkKeepsItsPlaceAmongBlockingCalls) {
  on_ranks([](Communicator& comm) {
    constexpr std::int64_t count = 3001;
    std::vector<std::vector<float>> buckets;
    for (int b = 0; b < 20; ++b) buckets.push_back(values_of<float>(comm.rank() + b, count));
    const auto send = values_of<double>(comm.rank(), 7 * comm.size());
    std::vector<double> mine(7);
    std::vector<std::int64_t> ranks(static_cast<std::size_t>(comm.size()));
    const std::int64_t rank = comm.rank();
    std::vector<std::unique_ptr<Work>> works;
    for (int b = 0; b < 10; ++b)
      works.push_back(comm.start_all_reduce(buckets[static_cast<std::size_t>(b)].data(), count,
                                            DataType::float32, Reduce::max));
    EXPECT_EQ(comm.all_reduce_value<std::int32_t>(1),
              comm.size());  // behind the ten, before the others
    works.push_back(
        comm.start_reduce_scatter(send.data(), mine.data(), 7, DataType::float64, Reduce::sum));
    works.push_back(comm.start_all_gather(&rank, 1, DataType::int64, ranks.data()));
    for (int b = 10; b < 20; ++b)
      works.push_back(comm.start_all_reduce(buckets[static_cast<std::size_t>(b)].data(), count,
                                            DataType::float32, Reduce::max));
    comm.barrier();
    for (auto work = works.rbegin(); work != works.rend(); ++work) (*work)->wait();
    for (int b = 0; b < 20; ++b)
      EXPECT_EQ(buckets[static_cast<std::size_t>(b)], values_of<float>(comm.size() - 1 + b, count));
    for (int r = 0; r < comm.size(); ++r) EXPECT_EQ(ranks[static_cast<std::size_t>(r)], r);
    const auto sums = reduced<double>(comm.size(), 7 * comm.size(), Reduce::sum);
    EXPECT_EQ(mine, std::vector<double>(sums.begin() + rank * 7, sums.begin() + rank * 7 + 7));
  });
}

TEST_P(Conformance, WorkThatIsDroppedIsDone) {
  on_ranks([](Communicator& comm) {
    auto data = values_of<float>(comm.rank(), 5000);
    comm.start_all_reduce(data.data(), 5000, DataType::float32, Reduce::sum);
    EXPECT_EQ(data, reduced<float>(comm.size(), 5000, Reduce::sum));
  });
}

TEST_P(Conformance, CheckedCollectivesGiveTheSame) {
  on_ranks([](Communicator& comm) {
    ParallelOptions options;
    options.check_collectives = true;
    comm.configure(options);
    expect_reductions<float>(comm);
    EXPECT_EQ(comm.broadcast_string("checked"), "checked");
    comm.configure({});
    expect_reductions<std::int64_t>(comm);
  });
}

TEST_P(Conformance, AnErrorOnOneRankIsThrownOnAll) {
  on_ranks([](Communicator& comm) {
    const int victim = comm.size() - 1;
    try {
      run_collectively(comm, [&] {
        if (comm.rank() == victim) throw io_error("disk full on rank {}", victim);
      });
      ADD_FAILURE() << "nothing thrown";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::io);
      EXPECT_EQ(e.what(), "disk full on rank " + std::to_string(victim));
    }
    run_collectively(comm, [] {});  // and the ranks are still in step
    EXPECT_THROW(on_root(comm, [] { throw input_error("bad"); }), Error);
  });
}

TEST_P(Conformance, RanksKnowTheirPlace) {
  on_ranks([](Communicator& comm) {
    EXPECT_EQ(comm.node_size(), comm.size());  // all of these run on one host
    EXPECT_EQ(comm.node_rank(), comm.rank());
    EXPECT_FALSE(comm.host().empty());
    EXPECT_EQ(comm.all_reduce_value<std::int64_t>(1), comm.size());
  });
}

}  // namespace gpuhpc
