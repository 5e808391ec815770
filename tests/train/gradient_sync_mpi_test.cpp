// Sums of gradients beside the backward pass. Run on 1, 2 and 4 ranks.
#include "gpuhpc/train/gradient_sync.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

// A task whose ranks see different documents.
struct SyncTask {
  SyncTask(Communicator& communicator, SyncOptions options)
      : comm(communicator), task(64, comm.size()), sync(task.arena, comm, options) {}
  void backward(std::int64_t step) {
    const std::int64_t first = (7 * step + 5 * comm.rank()) % 50;
    const std::vector<std::int64_t> items{first, first + 3, first + 11};
    task.plain(task.pack(items), 0).sum.backward();
  }
  std::vector<float> gradients() {
    const float* data = task.arena.gradients().const_data_ptr<float>();
    return {data, data + task.arena.capacity()};
  }
  // What this rank adds to the sum, without any communication.
  std::vector<float> own(std::int64_t step) {
    sync.begin();
    backward(step);
    return gradients();
  }
  Communicator& comm;
  TinyTask task;
  GradientSync sync;
};

// Bucket sizes from "one bucket a cache line" to "everything in one".
TEST(GradientSync, SumsOverRanksInOwnedFloats) {
  const auto comm = MpiSession::world();
  for (const bool shard : {false, true})
    for (const bool bfloat16 : {false, true})
      for (const bool overlap : {false, true})
        for (const std::int64_t bytes : {64, 1000, 1 << 20}) {
          SyncTask test(*comm, {shard, bfloat16, bytes, overlap});
          for (std::int64_t step = 0; step < 3; ++step) {
            std::vector<float> expected = test.own(step);
            comm->all_reduce(std::span<float>(expected));
            test.sync.begin();
            test.sync.arm();
            test.backward(step);
            test.sync.finish();
            const std::vector<float> sums = test.gradients();
            const float largest = std::abs(
                *std::ranges::max_element(expected, {}, [](float x) { return std::abs(x); }));
            const float tolerance = largest * (bfloat16 && comm->size() > 1 ? 1.5e-2F : 1e-6F);
            for (const Range& range : test.sync.owned())
              for (auto i = static_cast<std::size_t>(range.first);
                   i < static_cast<std::size_t>(range.last); ++i)
                ASSERT_NEAR(sums[i], expected[i], tolerance)
                    << "float " << i << ", step " << step << ", buckets of " << bytes;
          }
        }
}

TEST(GradientSync, OwnedFloatsOfAllRanksCoverTheArenaOnce) {
  const auto comm = MpiSession::world();
  for (const std::int64_t bytes : {64, 1000, 1 << 20}) {
    SyncTask test(*comm, {.shard = true, .bucket_bytes = bytes});
    std::vector<std::int32_t> owners(static_cast<std::size_t>(test.task.arena.capacity()));
    for (const Range& range : test.sync.owned())
      for (std::int64_t i = range.first; i < range.last; ++i) ++owners[static_cast<std::size_t>(i)];
    comm->all_reduce(std::span<std::int32_t>(owners));
    EXPECT_EQ(std::ranges::count(owners, 1), std::ssize(owners));
  }
}

TEST(GradientSync, GathersWhatEachRankUpdated) {
  const auto comm = MpiSession::world();
  SyncTask test(*comm, {.shard = true, .bucket_bytes = 1000});
  float* weights = test.task.arena.parameters().mutable_data_ptr<float>();
  for (const Range& range : test.sync.owned())
    for (std::int64_t i = range.first; i < range.last; ++i)
      weights[i] = static_cast<float>(1000 + i);
  test.sync.gather_parameters();
  if (comm->size() == 1) return;
  for (std::int64_t i = 0; i < test.task.arena.capacity(); ++i)
    ASSERT_EQ(weights[i], static_cast<float>(1000 + i));
}

// In the first step nothing leaves early; from the second on everything does, the head before the
// embedding table.
TEST(GradientSync, LearnsTheOrderInTheFirstStep) {
  const auto comm = MpiSession::world();
  if (comm->size() == 1) return;  // nothing travels
  SyncTask test(*comm, {.bucket_bytes = 256});
  EXPECT_TRUE(test.sync.order().empty());
  for (std::int64_t step = 0; step < 3; ++step) {
    test.sync.begin();
    test.sync.arm();
    test.backward(step);
    EXPECT_EQ(test.sync.early(), step == 0 ? 0 : std::ssize(test.sync.buckets()));
    test.sync.finish();
  }
  std::vector<std::int64_t> order = test.sync.order(), root = order, sorted = order;
  comm->broadcast(std::span<std::int64_t>(root));
  EXPECT_EQ(order, root);
  std::ranges::sort(sorted);
  std::vector<std::int64_t> all(test.sync.buckets().size());
  std::iota(all.begin(), all.end(), std::int64_t{0});
  EXPECT_EQ(sorted, all);
  const auto place = [&](const char* name) {  // of the bucket that holds the end of the tensor; its
                                              // first may hold another one's end
    const auto& entries = test.task.arena.entries();
    const Range range = std::ranges::find(entries, name, &ParameterArena::Entry::name)->range;
    const auto bucket = std::ranges::find_if(test.sync.buckets(),
                                             [&](const Range& b) { return range.last <= b.last; }) -
                        test.sync.buckets().begin();
    return std::ranges::find(order, bucket) - order.begin();
  };
  EXPECT_LT(place("head"), place("hidden.weight"));
  EXPECT_LT(place("hidden.weight"), place("table"));
}

// A rank without micro-batch, or whose backward pass failed before its end: the others do not wait
// for ever, the rest adds up, and the next step is whole again. In the first step it may be rank 0
// that has nothing to teach.
TEST(GradientSync, ARankThatComputesNothingStillPostsItsCollectives) {
  const auto comm = MpiSession::world();
  for (const bool shard : {false, true})
    for (const int lazy : {0, comm->size() - 1}) {
      SyncTask test(*comm, {.shard = shard, .bucket_bytes = 256});
      for (std::int64_t step = 0; step < 4; ++step) {
        const bool idle = comm->rank() == lazy && step % 2 == 0;
        std::vector<float> expected = test.own(step);
        if (idle) std::ranges::fill(expected, 0.F);
        comm->all_reduce(std::span<float>(expected));
        test.sync.begin();
        if (idle && step == 2) test.sync.arm();  // failed in its forward pass
        if (!idle) {
          test.sync.arm();
          test.backward(step);
        }
        test.sync.finish(idle);
        const std::vector<float> sums = test.gradients();
        for (const Range& range : test.sync.owned())
          for (auto i = static_cast<std::size_t>(range.first);
               i < static_cast<std::size_t>(range.last); ++i)
            ASSERT_NEAR(sums[i], expected[i], 1e-5F);
      }
      EXPECT_EQ(test.sync.order().empty(), comm->size() == 1);
    }
}

// A second backward pass behind the armed one would change gradients that have left: an error, not
// a wrong sum.
TEST(GradientSync, RefusesGradientsThatComeTooLate) {
  const auto comm = MpiSession::world();
  if (comm->size() == 1) return;  // nothing travels
  SyncTask test(*comm, {.bucket_bytes = 256});
  for (std::int64_t step = 0; step < 2; ++step) {
    test.sync.begin();
    test.sync.arm();
    test.backward(step);
    if (step == 1) {
      EXPECT_THROW(test.backward(step), Error);
    }
    test.sync.finish();
  }
}

}  // namespace
}  // namespace gpuhpc
