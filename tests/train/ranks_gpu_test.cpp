// Several ranks as threads on one GPU beside one rank there. The Trainer is told of no GPU of their
// own (context.device), so sums and gathered weights go through host memory: NCCL refuses two ranks
// on one GPU.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "bert_task.hpp"
#include "gpuhpc/comm/thread.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t documents = 217;  // the last batch has one: a rank has nothing to do

std::vector<Outcome> train_on_ranks(int ranks, const TrainOptions& options,
                                    const std::string& strategy) {
  ParallelOptions parallel;
  parallel.strategy = strategy;
  parallel.bucket_bytes = 1 << 14;  // many buckets, so that their order and parts matter
  // LibTorch runs all backward passes of a GPU on one thread: a sum that a rank began there would
  // keep the other from ever coming to its own.
  parallel.overlap = false;
  parallel.timeout = 60;
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  run_thread_ranks(ranks, parallel, [&](Communicator& comm) {
    BertTask task(gpu(), documents, 2, 64, comm.size());
    outcomes[static_cast<std::size_t>(comm.rank())] =
        train(task, options, {.comm = &comm, .parallel = parallel});
  });
  return outcomes;
}

struct Case {
  const char *name, *strategy, *optimizer, *precision;
  double early, late;  // relative distance of a loss: of the first nine steps, of the last three
};

class RanksOnOneGpu : public ::testing::TestWithParam<Case> {};

TEST_P(RanksOnOneGpu, FollowOneRank) {
  const Case& c = GetParam();
  TrainOptions options = four_epochs(c.precision);
  options.optimizer = c.optimizer;
  BertTask task(gpu(), documents);
  const Outcome wanted = train(task, options);
  const std::vector<Outcome> ours = train_on_ranks(2, options, c.strategy);
  for (const Outcome& rank : ours) {
    EXPECT_EQ(rank.sharded, std::string(c.strategy) == "zero1");
    ASSERT_EQ(rank.reports.size(), wanted.reports.size());
    for (std::size_t step = 0; step < wanted.reports.size(); ++step)
      EXPECT_EQ(rank.reports[step].documents, wanted.reports[step].documents) << step + 1;
    for (std::size_t step = 0; step < 9; ++step)
      EXPECT_NEAR(rank.loss(step) / wanted.loss(step), 1, c.early) << "step " << step + 1;
    EXPECT_NEAR(rank.last() / wanted.last(), 1, c.late);
  }
  EXPECT_TRUE(ours[0].weights.equal(ours[1].weights)) << "ranks end with different weights";
  std::printf("%s: last loss %.5f, of one rank %.5f\n", c.name, ours[0].last(), wanted.last());
}

INSTANTIATE_TEST_SUITE_P(Strategies, RanksOnOneGpu,
                         ::testing::Values(Case{"ddp", "ddp", "adamw", "fp32", 1e-4, 1e-2},
                                           Case{"zero1", "zero1", "adamw", "fp32", 1e-4, 1e-2},
                                           Case{"zero1_lamb", "zero1", "lamb", "fp32", 1e-4, 1e-2},
                                           Case{"zero1_bf16", "zero1", "adamw", "bf16", 2e-3,
                                                2e-2}),
                         [](const auto& which) { return std::string(which.param.name); });

}  // namespace
}  // namespace gpuhpc
