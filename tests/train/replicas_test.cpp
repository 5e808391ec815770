// --parallel.strategy dp: ranks that are threads of one process, each with a model of its own.
#include <gtest/gtest.h>

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
