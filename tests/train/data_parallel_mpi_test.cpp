// R13: one answer for any number of ranks, any strategy, any split of the batch. Run on 1, 2 and 4
// ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/train/trainer.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

struct Outcome {
  std::vector<StepReport> reports;
  std::vector<float> weights;  // without padding
};

Outcome train(const TrainOptions& options, const ParallelOptions& parallel, Communicator& comm,
              double dropout = 0, std::int64_t documents = 217) {
  TinyTask task(documents, comm.size(), dropout);
  Outcome outcome;
  Trainer(task.arena, task, options,
          {.comm = comm,
           .parallel = parallel,
           .report = [&](const StepReport& r) { outcome.reports.push_back(r); }})
      .run();
  outcome.weights = task.compact_weights();
  return outcome;
}

ParallelOptions parallel_options(const std::string& strategy) {
  ParallelOptions parallel;
  parallel.strategy = strategy;
  parallel.bucket_bytes = 1024;  // four buckets, so that order and parts matter
  return parallel;
}

struct Difference {
  double loss = 0, weight = 0;
};
Difference difference(const Outcome& a, const Outcome& b) {
  Difference result;
  EXPECT_EQ(a.reports.size(), b.reports.size());
  for (std::size_t i = 0; i < std::min(a.reports.size(), b.reports.size()); ++i) {
    result.loss = std::max(result.loss, std::abs(a.reports[i].loss - b.reports[i].loss));
    EXPECT_EQ(a.reports[i].documents, b.reports[i].documents);
    EXPECT_EQ(a.reports[i].tokens, b.reports[i].tokens);
    EXPECT_EQ(a.reports[i].learning_rate_multiplier, b.reports[i].learning_rate_multiplier);
  }
  for (std::size_t i = 0; i < a.weights.size(); ++i)
    result.weight =
        std::max(result.weight, static_cast<double>(std::abs(a.weights[i] - b.weights[i])));
  return result;
}

// 200 steps, ragged lengths, a last batch of one document (some ranks have nothing to do). With
// dropout the split itself changes what is dropped, so each split has its own curve; without, there
// is one curve for all. Stated tolerance: every loss within 1e-5, final weights within 1e-4.
TEST(DataParallel, SameLossCurveForAllRanksStrategiesAndSplits) {
  const auto comm = MpiSession::world(), alone = make_single_communicator();
  TrainOptions options = tiny_options();
  options.epochs = 20;
  options.micro_batch = 24;
  const Outcome whole = train(options, {}, *alone);
  ASSERT_EQ(whole.reports.size(), 200U);
  for (const double dropout : {0.0, .1})
    for (const std::int64_t micro : {2, 3, 6}) {
      options.micro_batch = micro;
      const Outcome one = dropout > 0 ? train(options, {}, *alone, dropout) : whole;
      for (const char* strategy : {"ddp", "zero1"}) {
        const Difference found =
            difference(train(options, parallel_options(strategy), *comm, dropout), one);
        EXPECT_LT(found.loss, 1e-5)
            << strategy << ", micro-batch " << micro << ", dropout " << dropout;
        EXPECT_LT(found.weight, 1e-4)
            << strategy << ", micro-batch " << micro << ", dropout " << dropout;
        if (comm->is_root())
          std::printf(
              "%d ranks, %s, micro-batch %ld, dropout %g: largest difference of a loss %.2e, of a "
              "weight %.2e\n",
              comm->size(), strategy, static_cast<long>(micro), dropout, found.loss, found.weight);
      }
    }
}

// Four, five and eight micro-batches per step: whole quarters of the batch on 1, 2 and 4 ranks; and
// a last batch of 1, 5, 13 or 20 documents.
TEST(DataParallel, AnyNumberOfRanksGivesTheSameBits) {
  const auto comm = MpiSession::world(), alone = make_single_communicator();
  TrainOptions options = tiny_options();
  for (const std::int64_t micro : {3, 5, 6})
    for (const std::int64_t documents : {217, 197, 205, 212}) {
      options.micro_batch = micro;
      EXPECT_EQ(train(options, parallel_options("ddp"), *comm, .1, documents).weights,
                train(options, {}, *alone, .1, documents).weights)
          << micro << ' ' << documents;
    }
  options.micro_batch = 6;
  EXPECT_EQ(train(options, parallel_options("ddp"), *comm).weights,
            train(options, {}, *alone).weights);
}

TEST(DataParallel, TheValidationLossHasTheSameBitsOnAnyRanksAndDropsNothing) {
  const auto comm = MpiSession::world(), alone = make_single_communicator();
  TrainOptions options = tiny_options();
  options.micro_batch = 6;
  const std::vector<std::int64_t> items = hold_out(217, .3, 42).validation;
  const auto validate = [&](Communicator& ranks, double dropout) {
    TinyTask task(217, ranks.size(), dropout);
    return Trainer(task.arena, task, options, {.comm = ranks}).mean_loss(items);
  };
  const double loss = validate(*alone, 0);
  EXPECT_EQ(validate(*comm, 0), loss);
  EXPECT_EQ(validate(*comm, .5), loss);
  TinyTask task(217);
  double sum = 0;
  for (const std::int64_t item : items)
    sum += task.plain(task.pack({&item, 1}), {}).sum.item<double>();
  EXPECT_NEAR(loss, sum / static_cast<double>(items.size()), 1e-5);
  // --train.eval-batch in place of the micro-batch
  std::size_t largest = 0;
  TinyTask narrow(217, comm->size());
  narrow.compute = [&](const PackedIds& batch, DropoutSeed seed) {
    largest = std::max(largest, batch.documents.size());
    return narrow.plain(batch, seed);
  };
  options.eval_batch = 4;
  EXPECT_NEAR(Trainer(narrow.arena, narrow, options, {.comm = *comm}).mean_loss(items), loss, 1e-5);
  EXPECT_EQ(largest, 4u);
}

TEST(DataParallel, DropoutChangesTheCurve) {
  const auto comm = MpiSession::world();
  EXPECT_GT(difference(train(tiny_options(), {}, *comm, .1), train(tiny_options(), {}, *comm)).loss,
            1e-3);
}

TEST(DataParallel, ARerunRepeatsTheBitsAndAllRanksHoldThem) {
  const auto comm = MpiSession::world();
  for (const char* strategy : {"ddp", "zero1"})
    for (const char* optimizer : {"adamw", "lamb"}) {
      TrainOptions options = tiny_options();
      options.optimizer = optimizer;
      const Outcome first = train(options, parallel_options(strategy), *comm, .1),
                    second = train(options, parallel_options(strategy), *comm, .1);
      EXPECT_EQ(first.weights, second.weights) << strategy << ' ' << optimizer;
      std::vector<float> root = first.weights;
      comm->broadcast(std::span<float>(root));
      EXPECT_EQ(first.weights, root) << strategy << ' ' << optimizer;
    }
}

TEST(DataParallel, LambUpdatesAlikeInSharesAndWhole) {
  const auto comm = MpiSession::world(), alone = make_single_communicator();
  TrainOptions options = tiny_options();
  options.optimizer = "lamb";
  options.micro_batch = 4;
  const Outcome one = train(options, {}, *alone);
  EXPECT_GT(difference(one, train(tiny_options(), {}, *alone)).weight, 1e-3);  // not AdamW
  for (const char* strategy : {"ddp", "zero1"}) {
    const Difference found = difference(train(options, parallel_options(strategy), *comm), one);
    EXPECT_LT(found.loss, 1e-5) << strategy;
    EXPECT_LT(found.weight, 1e-4) << strategy;
  }
}

// Gradients rounded to bf16 on the way: another curve, close by.
TEST(DataParallel, BFloat16GradientsStayClose) {
  const auto comm = MpiSession::world(), alone = make_single_communicator();
  TrainOptions options = tiny_options();
  options.epochs = 10;
  const Outcome one = train(options, {}, *alone);
  for (const char* strategy : {"ddp", "zero1"}) {
    ParallelOptions parallel = parallel_options(strategy);
    parallel.reduce_type = "bf16";
    const Difference found = difference(train(options, parallel, *comm), one);
    EXPECT_LT(found.loss, 2e-2) << strategy;
    if (comm->size() > 1) {
      EXPECT_GT(found.loss, 0) << strategy;
    }
  }
}

TEST(DataParallel, WithoutOverlapTheSameBits) {
  const auto comm = MpiSession::world();
  for (const char* strategy : {"ddp", "zero1"}) {
    ParallelOptions parallel = parallel_options(strategy);
    const Outcome beside = train(tiny_options(), parallel, *comm);
    parallel.overlap = false;
    EXPECT_EQ(beside.weights, train(tiny_options(), parallel, *comm).weights) << strategy;
  }
}

// A batch counted in tokens, and the learning rate that follows it.
TEST(DataParallel, BatchesOfTokens) {
  const auto comm = MpiSession::world(), alone = make_single_communicator();
  TrainOptions options = tiny_options();
  options.batch_tokens = 400;
  options.micro_batch = 4;
  options.rate_rule = "sqrt";
  options.base_batch = 5;
  const Outcome one = train(options, {}, *alone),
                many = train(options, parallel_options("zero1"), *comm);
  for (const StepReport& report : one.reports) EXPECT_LE(report.tokens, 400);
  EXPECT_GT(one.reports.at(3).learning_rate_multiplier, 1.5);
  const Difference found = difference(many, one);
  EXPECT_LT(found.loss, 1e-5);
  EXPECT_LT(found.weight, 1e-4);
}

}  // namespace
}  // namespace gpuhpc
