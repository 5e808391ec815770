// Micro-batches that are loaded before their turn.
#include "gpuhpc/train/loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/train/trainer.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

using testing::HasSubstr;

// Says what it loads, for which update, and takes its time about it.
class WatchedTask : public TinyTask {
 public:
  using TinyTask::TinyTask;
  std::any load(std::span<const std::int64_t> items,
                std::optional<std::int64_t> step) const override {
    std::unique_lock lock(mutex_);
    loaded_[step.value_or(-1)].insert(items.begin(), items.end());
    ++begun_;
    changed_.notify_all();
    const auto wait = std::chrono::microseconds(random_() % 3000);
    lock.unlock();
    std::this_thread::sleep_for(wait);
    std::any packed = TinyTask::load(items, step);
    lock.lock();
    ++ready_;
    changed_.notify_all();
    return packed;
  }
  std::int64_t ready() const {
    const std::lock_guard lock(mutex_);
    return ready_;
  }
  bool wait_until_ready(std::int64_t count) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return ready_ >= count; });
  }
  // False: so many loads have not begun within a minute.
  bool wait_for_loads(std::int64_t count) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return begun_ >= count; });
  }
  std::map<std::int64_t, std::set<std::int64_t>> loaded() const {
    const std::lock_guard lock(mutex_);
    return loaded_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::minstd_rand random_;
  mutable std::map<std::int64_t, std::set<std::int64_t>> loaded_;
  mutable std::int64_t begun_ = 0, ready_ = 0;
};

struct Trained {
  std::vector<float> weights;
  std::vector<double> losses;
  std::map<std::int64_t, std::set<std::int64_t>> loaded;
};

// Three epochs of 7 updates, the last short; four micro-batches in most.
Trained train(LoaderOptions loader, bool starved = false) {
  WatchedTask task(79, 1, .2);
  bool refused = !starved;
  task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
    if (!refused && batch.size() > 1 && batch.documents[0] % 5 == 3) {
      refused = true;
      throw Error(ExitCode::out_of_memory, "no room");
    }
    return task.plain(batch, seed);
  };
  TrainOptions options = tiny_options();
  options.epochs = 3, options.batch = 12, options.micro_batch = 3;
  const auto comm = make_single_communicator();
  Trained trained;
  Trainer(task.arena, task, options,
          {.comm = *comm,
           .loader = loader,
           .report = [&](const StepReport& r) { trained.losses.push_back(r.loss); }})
      .run();
  EXPECT_TRUE(refused);
  trained.weights = task.weights();
  trained.loaded = task.loaded();
  return trained;
}

TEST(Loader, ThreadsChangeNothing) {
  const Trained alone = train({.workers = 0});
  ASSERT_EQ(alone.losses.size(), 21U);
  ASSERT_EQ(alone.loaded.size(), 21U);  // the items of each update, for it
  for (const LoaderOptions loader : {LoaderOptions{.workers = 1, .prefetch = 1},
                                     {.workers = 3, .prefetch = 7},
                                     {.workers = 2, .prefetch = 1000}}) {
    const Trained ahead = train(loader);
    EXPECT_EQ(ahead.losses, alone.losses) << loader.workers;
    EXPECT_EQ(ahead.weights, alone.weights) << loader.workers;
    EXPECT_EQ(ahead.loaded, alone.loaded) << loader.workers;
  }
}

// What was loaded for the micro-batches as they were is not what the smaller ones need.
TEST(Loader, BatchesAreCutAnewAfterOutOfMemory) {
  const Trained alone = train({.workers = 0}, true), ahead = train({.workers = 3}, true);
  EXPECT_EQ(ahead.losses, alone.losses);
  EXPECT_EQ(ahead.weights, alone.weights);
}

TEST(Loader, LoadsWhatComesNextWhileTheLossIsComputed) {
  WatchedTask task(60);
  std::int64_t computed = 0, in_time = 0;
  constexpr std::int64_t pieces = 20, ahead = 3;
  task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
    in_time += task.wait_for_loads(std::min(pieces, ++computed + ahead));
    return task.plain(batch, seed);
  };
  TrainOptions options = tiny_options();
  options.epochs = 1, options.batch = 3, options.micro_batch = 3;
  const auto comm = make_single_communicator();
  Trainer(task.arena, task, options, {.comm = *comm, .loader = {.workers = 2, .prefetch = ahead}})
      .run();
  EXPECT_EQ(computed, pieces);
  EXPECT_EQ(in_time, pieces);
}

// Packing is slow. Where a loss takes longer than the packing of what comes next, threads have
// every micro-batch but the first ready before the training asks for it; without threads it packs
// them all itself.
TEST(Loader, ThreadsHideSlowPacking) {
  constexpr std::int64_t pieces = 20;
  for (const std::int64_t workers : {0, 2}) {
    WatchedTask task(60);
    std::int64_t computed = 0, waited_for = 0;
    task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
      const std::int64_t next = std::min(pieces, ++computed + 1);
      if (workers > 0) {
        EXPECT_TRUE(task.wait_until_ready(next));
      }
      waited_for += task.ready() < next;
      return task.plain(batch, seed);
    };
    TrainOptions options = tiny_options();
    options.epochs = 1, options.batch = 3, options.micro_batch = 3;
    const auto comm = make_single_communicator();
    Trainer(task.arena, task, options,
            {.comm = *comm, .loader = {.workers = workers, .prefetch = 1}})
        .run();
    EXPECT_EQ(computed, pieces);
    EXPECT_EQ(waited_for, workers > 0 ? 0 : pieces - 1);
  }
}

// The training ends with the error that the thread met, in the update it was for.
TEST(Loader, AnErrorReachesTheTraining) {
  class Broken final : public TinyTask {
   public:
    using TinyTask::TinyTask;
    std::any load(std::span<const std::int64_t> items,
                  std::optional<std::int64_t> step) const override {
      if (step == 4) throw input_error("shard.h5: document {}: its tokens are damaged", items[0]);
      return TinyTask::load(items, step);
    }
  };
  Broken task(60);
  std::int64_t steps = 0;
  const auto comm = make_single_communicator();
  TrainOptions options = tiny_options();
  options.batch = 6;
  Trainer trainer(task.arena, task, options,
                  {.comm = *comm,
                   .loader = {.workers = 2, .prefetch = 9},
                   .report = [&](const StepReport&) { ++steps; }});
  try {
    trainer.run();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_THAT(error.what(), HasSubstr("shard.h5: document "));
  }
  EXPECT_EQ(steps, 4);
}

TEST(LoaderOptions, HaveAsManyThreadsAsHalfTheCores) {
  EXPECT_EQ(LoaderOptions{}.threads(1), 0);
  EXPECT_EQ(LoaderOptions{}.threads(6), 3);
  EXPECT_EQ(LoaderOptions{}.threads(64), 8);
  EXPECT_EQ(LoaderOptions{.workers = 12}.threads(1), 12);
}

}  // namespace
}  // namespace gpuhpc
