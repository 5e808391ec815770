// One answer on any number of ranks, and errors that all ranks share. Run on 1, 2 and 4 ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/train/trainer.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

struct Outcome {
  std::vector<StepReport> reports;
  std::vector<float> weights;
};

Outcome train(const TrainOptions& options, Communicator& comm, std::int64_t documents) {
  TinyTask task(documents, comm.size());
  Outcome outcome;
  Trainer trainer(task.arena, task.source, task.loss(), options, comm,
                  {{}, [&](const StepReport& r) { outcome.reports.push_back(r); }, {}});
  trainer.run();
  outcome.weights = task.weights();
  outcome.weights.resize(static_cast<std::size_t>(task.arena.entries().back().range.last));
  return outcome;
}

// R13. fp32, no dropout, 200 steps, ragged lengths, a short last batch (one document: some ranks have nothing to do).
// Stated tolerance: every loss within 1e-5, final weights within 1e-4.
TEST(TrainerMpi, SameLossCurveAsOneRank) {
  const auto comm = MpiSession::world(), alone = make_single_communicator();
  TrainOptions options = tiny_options();
  options.epochs = 20;
  for (const std::int64_t micro : {0, 3}) {
    options.micro_batch = micro;
    const Outcome one = train(options, *alone, 217), many = train(options, *comm, 217);
    ASSERT_EQ(one.reports.size(), 200U);
    ASSERT_EQ(many.reports.size(), one.reports.size());
    double loss = 0, weight = 0;
    for (std::size_t i = 0; i < one.reports.size(); ++i) {
      loss = std::max(loss, std::abs(one.reports[i].loss - many.reports[i].loss));
      EXPECT_EQ(one.reports[i].documents, many.reports[i].documents);
      EXPECT_EQ(one.reports[i].tokens, many.reports[i].tokens);
    }
    for (std::size_t i = 0; i < one.weights.size(); ++i)
      weight = std::max(weight, static_cast<double>(std::abs(one.weights[i] - many.weights[i])));
    EXPECT_LT(loss, 1e-5);
    EXPECT_LT(weight, 1e-4);
    if (comm->is_root())
      std::printf("%d ranks, micro-batch %ld: largest difference of loss %.2e, of a weight %.2e\n", comm->size(), static_cast<long>(micro),
                  loss, weight);
  }
}

TEST(TrainerMpi, AllRanksHoldTheSameBitsAndARerunRepeatsThem) {
  const auto comm = MpiSession::world();
  TrainOptions options = tiny_options();
  const Outcome first = train(options, *comm, 100), second = train(options, *comm, 100);
  EXPECT_EQ(first.weights, second.weights);
  std::vector<float> root = first.weights;
  comm->broadcast(std::span<float>(root));
  EXPECT_EQ(first.weights, root);
}

// R9: the last rank's loss is NaN in the third step; every rank skips it and goes on.
TEST(TrainerMpi, NanOnOneRankSkipsTheSameStepOnAll) {
  const auto comm = MpiSession::world();
  TinyTask task(240, comm->size());
  std::int64_t calls = 0;
  const Loss clean = task.loss();
  const Loss poisoned = [&](const PackedIds& batch) {
    LossSum loss = clean(batch);
    if (++calls == 3 && comm->rank() == comm->size() - 1) loss.sum = loss.sum.mul(std::numeric_limits<float>::quiet_NaN());
    return loss;
  };
  std::vector<std::int64_t> skipped;
  Trainer trainer(task.arena, task.source, poisoned, tiny_options(), *comm,
                  {{},
                   [&](const StepReport& r) {
                     if (r.skipped) skipped.push_back(r.step);
                   },
                   {}});
  const TrainSummary summary = trainer.run();
  EXPECT_EQ(skipped, std::vector<std::int64_t>{3});
  EXPECT_TRUE(std::isfinite(summary.last_loss));
  for (const float weight : task.weights()) ASSERT_TRUE(std::isfinite(weight));
}

TEST(TrainerMpi, AnErrorOnOneRankIsThrownOnAll) {
  const auto comm = MpiSession::world();
  TinyTask task(240, comm->size());
  std::int64_t calls = 0;
  const Loss clean = task.loss();
  const Loss failing = [&](const PackedIds& batch) {
    if (++calls == 2 && comm->rank() == comm->size() - 1) throw input_error("shard 7 is cut");
    return clean(batch);
  };
  Trainer trainer(task.arena, task.source, failing, tiny_options(), *comm);
  try {
    trainer.run();
    FAIL() << "no error on rank " << comm->rank();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_STREQ(error.what(), "shard 7 is cut");
  }
}

TEST(TrainerMpi, DivergenceEndsAllRanksAtTheSameStep) {
  const auto comm = MpiSession::world();
  TinyTask task(240, comm->size());
  const Loss clean = task.loss();
  const Loss poisoned = [&](const PackedIds& batch) {
    LossSum loss = clean(batch);
    if (comm->is_root()) loss.sum = loss.sum.mul(std::numeric_limits<float>::infinity());
    return loss;
  };
  TrainOptions options = tiny_options();
  options.max_skipped = 2;
  std::int64_t steps = 0;
  Trainer trainer(task.arena, task.source, poisoned, options, *comm, {{}, [&](const StepReport&) { ++steps; }, {}});
  EXPECT_THROW(trainer.run(), Error);
  EXPECT_EQ(steps, 3);
}

}  // namespace
}  // namespace gpuhpc
