// --parallel.strategy dp: ranks that are threads of one process, each with a model of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "../comm/over_another.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/thread.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

// Four micro-batches per step: whole quarters of the batch on 1, 2 and 4 replicas.
TrainOptions quarters() {
  TrainOptions options = tiny_options();
  options.micro_batch = 6;
  return options;
}

std::vector<float> train(Communicator& comm, const ParallelOptions& parallel) {
  TinyTask task(240, comm.size(), .1);
  Trainer(task.arena, task, quarters(), {.comm = comm, .parallel = parallel}).run();
  return task.compact_weights();
}

TEST(Replicas, EndWithTheWeightsOfOneBitForBit) {
  ParallelOptions parallel;
  parallel.strategy = "dp";
  parallel.bucket_bytes = 1024;
  const std::vector<float> alone = train(*make_single_communicator(), parallel);
  for (const int replicas : {2, 4})
    run_thread_ranks(replicas, parallel, [&](Communicator& comm) {
      const std::vector<float> weights = train(comm, parallel);
      EXPECT_EQ(weights, alone) << "replica " << comm.rank() << " of " << replicas;
    });
}

// Writes down when this rank starts sums and when it waits for the others.
class Recorder final : public OverAnother {
 public:
  using OverAnother::OverAnother;
  void barrier() override {
    calls.emplace_back("meet");
    OverAnother::barrier();
  }
  void check() override { checked(); }
  std::unique_ptr<Work> start_all_reduce(void* data, std::int64_t count, DataType type,
                                         Reduce reduce) override {
    calls.emplace_back("sum");
    summing();
    return OverAnother::start_all_reduce(data, count, type, reduce);
  }
  std::vector<std::string> calls;
  std::function<void()> summing = [] {}, checked = [] {};
};

// NCCL takes its memory at its first collective: what is found to fit must fit beside that. (Here
// the sums of tensors in host memory go through the ranks' own communicator.)
TEST(Replicas, SumBetweenGpusBeforeTheMicroBatchIsTried) {
  run_thread_ranks(2, {}, [&](Communicator& comm) {
    Recorder recorder(comm);
    TinyTask task(48, comm.size());
    task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
      recorder.calls.emplace_back("loss");
      return task.plain(batch, seed);
    };
    TrainOptions options = tiny_options();
    options.epochs = 1, options.micro_batch = -1;
    Trainer(task.arena, task, options,
            {.comm = recorder,
             .between_gpus = [](Communicator& c) { return std::make_unique<Recorder>(c); }})
        .run();
    const auto sum = std::ranges::find(recorder.calls, "sum");
    ASSERT_NE(sum, recorder.calls.end());
    EXPECT_EQ(std::ranges::count(recorder.calls.begin(), sum, "loss"), 0);
    EXPECT_GT(std::ranges::count(recorder.calls, "loss"), 4);  // trials, then two updates
  });
}

// Behind a step that ran out of memory somewhere nobody goes on before all have freed theirs.
TEST(Replicas, MeetBehindAStepThatRanOutOfMemory) {
  const auto meetings = [](bool starved) {
    std::vector<std::int64_t> of_rank(2);
    run_thread_ranks(2, {}, [&](Communicator& comm) {
      Recorder recorder(comm);
      TinyTask task(24, comm.size());
      bool refused = !starved || comm.rank() == 0;
      task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
        if (!std::exchange(refused, true)) throw Error(ExitCode::out_of_memory, "no room");
        return task.plain(batch, seed);
      };
      Trainer(task.arena, task, quarters(), {.comm = recorder}).run();
      of_rank[static_cast<std::size_t>(comm.rank())] = std::ranges::count(recorder.calls, "meet");
    });
    EXPECT_EQ(of_rank[0], of_rank[1]);
    return of_rank[0];
  };
  EXPECT_EQ(meetings(true), meetings(false) + 1);
}

// GPUs of one process: no sum is under way while a rank may still take memory.
TEST(Replicas, SumsOfOneProcessStartTogether) {
  for (const bool one_process : {false, true})
    run_thread_ranks(2, {}, [&](Communicator& comm) {
      Recorder recorder(comm);
      TinyTask task(24, comm.size());
      GradientSync sync(task.arena, recorder,
                        {.bucket_bytes = 1 << 20, .one_process = one_process});
      const std::vector<std::int64_t> items{0, 1, 2};
      for (int step = 0; step < 2; ++step) {
        recorder.calls.clear();
        sync.begin();
        sync.arm();
        task.plain(task.pack(items), 0).sum.backward();
        EXPECT_EQ(sync.early() > 0, step > 0 && !one_process);
        sync.finish();
      }
      std::vector<std::string> expected(sync.buckets().size(), "sum");
      if (one_process) {
        expected.insert(expected.begin(), "meet");
        expected.emplace_back("meet");
      }
      EXPECT_EQ(recorder.calls, expected);
    });
}

// NCCL takes memory at its first sum of each size: no rank has another one under way meanwhile.
TEST(Replicas, WarmUpEndsEachSumBeforeTheNext) {
  std::atomic<int> ended{0};  // sums, of both ranks
  run_thread_ranks(2, {}, [&](Communicator& comm) {
    Recorder recorder(comm);
    recorder.checked = [&] { ++ended; };
    std::vector<int> ended_before;
    recorder.summing = [&] { ended_before.push_back(ended); };
    TinyTask task(24, comm.size());
    GradientSync sync(task.arena, recorder, {.bucket_bytes = 1024, .one_process = true});
    sync.warm_up();
    ASSERT_GT(sync.buckets().size(), 2U);
    ASSERT_EQ(ended_before.size(), sync.buckets().size());
    for (int bucket = 0; bucket < std::ssize(ended_before); ++bucket)  // and a first look
      EXPECT_EQ(ended_before[static_cast<std::size_t>(bucket)], 2 * (bucket + 1));
    EXPECT_TRUE(sync.order().empty());  // nothing was learnt from it
    TinyTask sharded(24, comm.size());
    const std::vector<float> before = sharded.compact_weights();
    GradientSync(sharded.arena, comm, {.shard = true, .bucket_bytes = 1024, .one_process = true})
        .warm_up();
    EXPECT_EQ(sharded.compact_weights(), before);
  });
}

TEST(Replicas, ShareAProcess) {
  run_thread_ranks(2, {}, [](Communicator& comm) { EXPECT_TRUE(share_a_process(comm)); });
  EXPECT_FALSE(share_a_process(*make_single_communicator()));
}

TEST(Replicas, AnErrorInOneEndsAll) {
  std::vector<std::string> ends(3);
  run_thread_ranks(3, {}, [&](Communicator& comm) {
    TinyTask task(240, comm.size());
    std::int64_t calls = 0;
    task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
      if (comm.rank() == 1 && ++calls == 3) throw input_error("shard 7 is cut");
      return task.plain(batch, seed);
    };
    try {
      Trainer(task.arena, task, quarters(), {.comm = comm}).run();
    } catch (const Error& error) {
      ends[static_cast<std::size_t>(comm.rank())] = error.what();
    }
  });
  EXPECT_EQ(ends, std::vector<std::string>(3, "shard 7 is cut"));
}

}  // namespace
}  // namespace gpuhpc
