#include "gpuhpc/train/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

TEST(LargestFitting, ComesWithinAnEighthAndNeverAbove) {
  for (std::int64_t limit : {1, 2, 7, 64, 1000})
    for (std::int64_t capacity = 0; capacity <= limit + 1; ++capacity) {
      std::int64_t trials = 0;
      const std::int64_t found = largest_fitting(limit, [&](std::int64_t size) {
        ++trials;
        EXPECT_GE(size, 1);
        EXPECT_LE(size, limit);
        return size <= capacity;
      });
      const std::int64_t best = std::min(capacity, limit);
      EXPECT_LE(found, best);
      EXPECT_GE(found, best - best / 8) << "limit " << limit << ", capacity " << capacity;
      EXPECT_LE(trials, 16);
    }
}

// Whatever was foreseen the answer is as good; where that was right, two trials find it.
TEST(LargestFitting, BeginsWithWhatWasForeseen) {
  for (std::int64_t limit : {1, 2, 7, 64, 300})
    for (std::int64_t capacity = 0; capacity <= limit; ++capacity)
      for (std::int64_t foreseen : {std::int64_t{1}, capacity / 2, capacity, 2 * capacity, limit}) {
        if (foreseen == 0) continue;
        std::vector<std::int64_t> tried;
        const std::int64_t found = largest_fitting(
            limit,
            [&](std::int64_t size) {
              EXPECT_TRUE(size >= 1 && size <= limit) << size;
              tried.push_back(size);
              return size <= capacity;
            },
            foreseen);
        EXPECT_LE(found, capacity);
        EXPECT_GE(found, capacity - capacity / 8) << "limit " << limit << ", " << capacity;
        EXPECT_EQ(tried.front(), std::min(foreseen, limit));
        EXPECT_LE(tried.size(), 16U);
        if (foreseen != capacity) continue;
        EXPECT_EQ(found, capacity);
        EXPECT_EQ(tried.size(), capacity == limit ? 1U : 2U);
      }
}

TEST(UsualMicroBatch, FollowsTheMemoryOfTheGpu) {
  for (const auto& [bytes, documents] :
       std::map<std::int64_t, std::int64_t>{{0, 8},  // processors
                                            {8'000'000'000, 8},
                                            {15'835'660'288, 16},  // T4
                                            {16'945'512'448, 16},  // V100 16 GB
                                            {23'601'348'608, 24},  // A10
                                            {25'393'692'672, 24},  // RTX 4090
                                            {42'405'855'232, 24},  // A100 40 GB
                                            {47'664'594'944, 32},  // L40S
                                            {51'033'931'776, 32},  // RTX A6000
                                            {150'000'000'000, 32}})
    EXPECT_EQ(usual_micro_batch(bytes), documents) << bytes;
  EXPECT_EQ(usual_micro_batch(0), TrainOptions{}.micro_batch);
}

TEST(FastestSize, IsTheSmallestOfThoseThatAreAboutAsFast) {
  std::vector<std::int64_t> tried;
  const auto found = [&](std::int64_t limit, double once, double square) {
    tried.clear();
    return fastest_size(limit, [&](std::int64_t size) {
      tried.push_back(size);
      const auto n = static_cast<double>(size);
      return once + n + square * n * n;
    });
  };
  EXPECT_EQ(found(24, 4, .0), 24);  // per item 1 + 4 / n
  EXPECT_EQ(tried, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 24}));
  EXPECT_EQ(found(64, .9, .0), 16);  // 1.056 at 16, 1.014 at 64
  EXPECT_EQ(found(64, 4, .03), 8);   // 1.74 at 8, 1.73 at 16
  EXPECT_EQ(found(1, 4, .03), 1);
  EXPECT_EQ(tried, std::vector<std::int64_t>{1});
}

TEST(FastestSize, TriesTheNeighboursOfWhatWasForeseen) {
  std::vector<std::int64_t> tried;
  const auto found = [&](std::int64_t foreseen) {
    tried.clear();
    return fastest_size(
        100,
        [&](std::int64_t size) {  // per item 3.05, 1.84, 1.24 at 16, .96, .89 at 64, .99
          tried.push_back(size);
          const auto n = static_cast<double>(size);
          return 20 + .3 * n + .0045 * n * n;
        },
        foreseen);
  };
  EXPECT_EQ(found(0), 64);
  EXPECT_EQ(tried.size(), 8U);
  EXPECT_EQ(found(64), 64);  // right
  EXPECT_THAT(tried, testing::UnorderedElementsAre(32, 64, 100));
  EXPECT_EQ(found(50), 64);  // the next power of two
  EXPECT_EQ(found(8), 64);   // too low, too high
  EXPECT_EQ(found(100), 64);
  EXPECT_EQ(found(1000), 64);
  EXPECT_EQ(fastest_size(
                4, [](std::int64_t n) { return static_cast<double>(n); }, 4),
            1);
  // Each a little slower than the one above it: as fast as the fastest, not as its neighbour or as
  // what was foreseen.
  const auto of = [](const std::map<std::int64_t, double>& per_item, std::int64_t foreseen) {
    return fastest_size(
        8, [&](std::int64_t n) { return static_cast<double>(n) * per_item.at(n); }, foreseen);
  };
  for (const std::int64_t foreseen : {0, 2, 8}) {
    EXPECT_EQ(of({{1, 1.13}, {2, 1.08}, {4, 1.04}, {8, 1.0}}, foreseen), 4);
    EXPECT_EQ(of({{1, 1.1}, {2, 1.0}, {4, 1.04}, {8, 1.2}}, foreseen), 2);
  }
}

TEST(Batches, SeedsOfMicroBatchesDiffer) {
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed : {0, 1, 42})
    for (std::int64_t step = 0; step < 20; ++step)
      for (std::int64_t part = 0; part < 8; ++part)
        seeds.push_back(micro_batch_seed(seed, step, part));
  EXPECT_EQ(micro_batch_seed(42, 19, 7), seeds.back());
  std::ranges::sort(seeds);
  EXPECT_EQ(std::ranges::adjacent_find(seeds), seeds.end());
}

TEST(Batches, MicroBatchesHoldEveryItemOnceInBalance) {
  const TinyTask task(200);
  TrainOptions options = tiny_options();
  Sampler sampler(task, options, options.course(), 48);
  for (std::vector<std::int64_t> batch; !sampler.epoch_over();) {
    batch = sampler.next();
    for (const std::int64_t micro : {0, 1, 5, 8, 100})
      for (const int ranks : {1, 2, 3, 4}) {
        const auto parts = cut_micro_batches(task, batch, micro, ranks);
        std::vector<std::int64_t> all, load;
        for (const auto& part : parts) {
          all.insert(all.end(), part.begin(), part.end());
          load.push_back(0);
          for (const std::int64_t item : part) load.back() += task.cost(item);
          if (micro > 0) {
            EXPECT_LE(std::ssize(part), micro);
          }
        }
        EXPECT_THAT(all, testing::UnorderedElementsAreArray(batch));
        EXPECT_GE(std::ssize(parts), std::min<std::int64_t>(ranks, std::ssize(batch)));
        EXPECT_LE(std::ranges::max(load) - std::ranges::min(load), 40);  // the longest document
      }
  }
}

// A micro-batch that does not depend on the ranks gives them all the same gradients to add up.
TEST(Batches, MicroBatchesDoNotDependOnTheRanks) {
  const TinyTask task(48);
  std::vector<std::int64_t> batch(48);
  std::iota(batch.begin(), batch.end(), 0);
  EXPECT_EQ(cut_micro_batches(task, batch, 8, 1), cut_micro_batches(task, batch, 8, 4));
  EXPECT_EQ(cut_micro_batches(task, batch, 8, 8).size(),
            8U);  // more ranks than micro-batches: all of them work
  EXPECT_EQ(cut_micro_batches(task, std::span(batch).first(2), 8, 4).size(), 2U);
}

TEST(BatchShape, HoldsTheWholeBatch) {
  const auto shape = [](std::int64_t documents, std::int64_t micro_batch, int ranks) {
    const BatchShape s = batch_shape(documents, micro_batch, ranks);
    return std::vector<std::int64_t>{s.ranks, s.micro_batch, s.accumulation};
  };
  EXPECT_EQ(shape(32, 8, 1), (std::vector<std::int64_t>{1, 8, 4}));
  EXPECT_EQ(shape(32, 8, 2), (std::vector<std::int64_t>{2, 8, 2}));
  EXPECT_EQ(shape(32, 0, 4), (std::vector<std::int64_t>{4, 8, 1}));
  EXPECT_EQ(shape(32, 100, 2), (std::vector<std::int64_t>{
                                   2, 16, 1}));  // more ranks than micro-batches: all of them work
  EXPECT_EQ(shape(24, 5, 4),
            (std::vector<std::int64_t>{4, 5, 2}));  // five micro-batches of five and four documents
  EXPECT_EQ(shape(1, 8, 4), (std::vector<std::int64_t>{4, 1, 1}));
}

TEST(MicroBatch, QuartersEndWhereRanksDo) {
  const auto ends = [](std::int64_t count) {
    std::vector<std::int64_t> last;
    for (std::int64_t i = 0; i < count; ++i)
      if (ends_quarter(i, count)) last.push_back(i);
    return last;
  };
  EXPECT_EQ(ends(1), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(ends(3), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(ends(4), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(ends(8), (std::vector<std::int64_t>{1, 3, 5, 7}));
  EXPECT_EQ(ends(20), (std::vector<std::int64_t>{4, 9, 14, 19}));
}

}  // namespace
}  // namespace gpuhpc
