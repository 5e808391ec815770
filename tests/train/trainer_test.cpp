#include "gpuhpc/train/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "gpuhpc/base/error.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

struct Outcome {
  std::vector<StepReport> reports;
  std::vector<float> weights;
  TrainSummary summary;
};

Outcome train(const TrainOptions& options, std::int64_t documents = 240) {
  TinyTask task(documents);
  const auto comm = make_single_communicator();
  Outcome outcome;
  Trainer trainer(task.arena, task.source, task.loss(), options, {}, *comm,
                  {{}, [&](const StepReport& r) { outcome.reports.push_back(r); }, {}});
  outcome.summary = trainer.run();
  outcome.weights = task.weights();
  return outcome;
}

TEST(Batches, EveryItemOnceAnEpochInAnOrderThatDependsOnSeedAndEpoch) {
  const auto batches = global_batches(103, 10, 42, 0);
  ASSERT_EQ(batches.size(), 11U);
  EXPECT_EQ(batches.back().size(), 3U);
  std::vector<std::int64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  std::ranges::sort(all);
  std::vector<std::int64_t> expected(103);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(batches, global_batches(103, 10, 42, 0));
  EXPECT_NE(batches, global_batches(103, 10, 42, 1));
  EXPECT_NE(batches, global_batches(103, 10, 43, 0));
}

TEST(Batches, ByTokensEveryItemOnceAndNoMoreThanTheBudget) {
  const TinySource source(200);
  for (const std::int64_t budget : {1, 30, 500, 1'000'000}) {
    std::vector<std::int64_t> all;
    for (const auto& batch : global_batches_by_tokens(source, budget, 42, 3)) {
      std::int64_t tokens = 0;
      for (const std::int64_t item : batch) tokens += source.length(item);
      EXPECT_TRUE(tokens <= budget || batch.size() == 1) << tokens << " tokens of " << budget;
      all.insert(all.end(), batch.begin(), batch.end());
    }
    EXPECT_EQ(all, global_batches(200, 200, 42, 3).at(0));  // the same shuffle
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

TEST(Batches, WhatIsHeldOutIsADrawBySeedAlone) {
  const HeldOut parts = hold_out(103, .1, 42);
  EXPECT_EQ(parts.validation.size(), 10U);
  std::vector<std::int64_t> all = parts.learnt, expected(103);
  all.insert(all.end(), parts.validation.begin(), parts.validation.end());
  std::ranges::sort(all);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(parts.validation, hold_out(103, .1, 42).validation);
  EXPECT_NE(parts.validation, hold_out(103, .1, 43).validation);
  const TinySource source(103);
  const SubsetSource subset(source, parts.validation);
  EXPECT_EQ(subset.size(), 10);
  EXPECT_EQ(subset.length(3), source.length(parts.validation[3]));
  EXPECT_EQ(subset.pack(std::vector<std::int64_t>{3, 0}).documents,
            (std::vector<std::int64_t>{parts.validation[3], parts.validation[0]}));
}

TEST(Batches, MicroBatchesHoldEveryItemOnceInBalance) {
  const TinySource source(200);
  for (const auto& batch : global_batches(source.size(), 48, 1, 0))
    for (const std::int64_t micro : {0, 1, 5, 8, 100})
      for (const int ranks : {1, 2, 3, 4}) {
        const auto parts = cut_micro_batches(source, batch, micro, ranks);
        std::vector<std::int64_t> all, load;
        for (const auto& part : parts) {
          all.insert(all.end(), part.begin(), part.end());
          load.push_back(0);
          for (const std::int64_t item : part) load.back() += source.length(item);
          if (micro > 0) {
            EXPECT_LE(std::ssize(part), micro);
          }
        }
        EXPECT_THAT(all, testing::UnorderedElementsAreArray(batch));
        EXPECT_GE(std::ssize(parts), std::min<std::int64_t>(ranks, std::ssize(batch)));
        EXPECT_LE(std::ranges::max(load) - std::ranges::min(load), 40);  // the longest document
      }
}

// A micro-batch that does not depend on the ranks gives them all the same gradients to add up.
TEST(Batches, MicroBatchesDoNotDependOnTheRanks) {
  const TinySource source(48);
  const auto batch = global_batches(48, 48, 1, 0)[0];
  EXPECT_EQ(cut_micro_batches(source, batch, 8, 1), cut_micro_batches(source, batch, 8, 4));
  EXPECT_EQ(cut_micro_batches(source, batch, 8, 8).size(),
            8U);  // more ranks than micro-batches: all of them work
  EXPECT_EQ(cut_micro_batches(source, std::span(batch).first(2), 8, 4).size(), 2U);
}

// The entropy of the targets is .778: no model can go below it on new data.
TEST(Trainer, LearnsTheTinyTask) {
  TrainOptions options = tiny_options();
  options.epochs = 10;
  const Outcome outcome = train(options);
  ASSERT_EQ(outcome.reports.size(), 100U);
  EXPECT_EQ(outcome.summary.steps, 100);
  EXPECT_EQ(outcome.summary.documents, 2400);
  EXPECT_EQ(outcome.summary.skipped, 0);
  EXPECT_NEAR(outcome.reports.front().loss, std::log(5.0), .1);
  EXPECT_LT(outcome.summary.last_loss, .9);
  EXPECT_EQ(outcome.summary.first_loss, [&] {
    double sum = 0;
    for (int i = 0; i < 10; ++i) sum += outcome.reports[static_cast<std::size_t>(i)].loss;
    return sum / 10;
  }());
}

TEST(Trainer, ReportsStepsEpochsAndRates) {
  TrainOptions options = tiny_options();
  const Outcome outcome = train(options);
  const Schedule schedule{20, 2, Decay::linear};
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < outcome.reports.size(); ++i) {
    const StepReport& report = outcome.reports[i];
    EXPECT_EQ(report.step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(report.epoch, i < 10 ? 0 : 1);
    EXPECT_EQ(report.rate_factor, rate_factor(schedule, static_cast<std::int64_t>(i)));
    EXPECT_EQ(report.documents, 24);
    EXPECT_GT(report.gradient_norm, 0);
    EXPECT_GT(report.tokens_per_second, 0);
    tokens += report.tokens;
  }
  EXPECT_EQ(outcome.summary.tokens, tokens);
}

// Packing takes at least 3 ms a micro-batch here.
TEST(Trainer, TellsWhereTheTimeOfEachStepWent) {
  class SlowSource final : public BatchSource {
   public:
    explicit SlowSource(const BatchSource& source) : source_(source) {}
    std::int64_t size() const override { return source_.size(); }
    std::int64_t length(std::int64_t item) const override { return source_.length(item); }
    PackedIds pack(std::span<const std::int64_t> items) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      return source_.pack(items);
    }

   private:
    const BatchSource& source_;
  };
  TinyTask task(100);
  const SlowSource source(task.source);
  const auto comm = make_single_communicator();
  TrainOptions options = tiny_options();
  options.micro_batch = 8;
  double data = 0, compute = 0;
  std::int64_t tokens = 0;
  Trainer trainer(
      task.arena, source, task.loss(), options, {}, *comm, {.report = [&](const StepReport& r) {
        EXPECT_GE(r.data_seconds, .001 * 3 * static_cast<double>((r.documents + 7) / 8));
        EXPECT_GT(std::min({r.compute_seconds, r.sum_seconds, r.update_seconds}), 0);
        EXPECT_NEAR(r.data_seconds + r.compute_seconds + r.sum_seconds + r.update_seconds,
                    r.step_seconds, 1e-9);
        data += r.data_seconds, compute += r.compute_seconds, tokens += r.tokens;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }});
  const TrainSummary summary = trainer.run();
  EXPECT_EQ(summary.own_steps, 10);
  EXPECT_EQ(summary.own_tokens, tokens);
  EXPECT_NEAR(summary.data_seconds, data, 1e-9);
  EXPECT_NEAR(summary.compute_seconds, compute, 1e-9);
  EXPECT_GE(summary.other_seconds, .002 * 10);
  EXPECT_NEAR(summary.data_seconds + summary.compute_seconds + summary.sum_seconds +
                  summary.update_seconds + summary.other_seconds,
              summary.seconds, 1e-9);
}

TEST(Trainer, SameSeedSameBitsOtherSeedOtherWeights) {
  TrainOptions options = tiny_options();
  const Outcome first = train(options), second = train(options);
  EXPECT_EQ(first.weights, second.weights);
  options.seed = 43;
  EXPECT_NE(first.weights, train(options).weights);
}

// R13: k micro-batches of b documents with ragged lengths are one batch of k*b. The batch of the
// last step of an epoch is short.
TEST(Trainer, AccumulationEqualsOneBatch) {
  TrainOptions options = tiny_options();
  const Outcome whole = train(options, 250);
  for (const std::int64_t micro : {1, 5, 8, 23}) {
    options.micro_batch = micro;
    const Outcome parts = train(options, 250);
    ASSERT_EQ(parts.reports.size(), whole.reports.size());
    for (std::size_t i = 0; i < whole.reports.size(); ++i) {
      EXPECT_NEAR(parts.reports[i].loss, whole.reports[i].loss, 2e-5) << micro << " step " << i;
      EXPECT_NEAR(parts.reports[i].gradient_norm, whole.reports[i].gradient_norm, 1e-4);
    }
  }
}

TEST(Trainer, SkipsAStepThatIsNotFiniteAndLeavesTheWeights) {
  TinyTask task(240);
  const auto comm = make_single_communicator();
  std::vector<float> before;
  std::vector<std::int64_t> skipped;
  std::int64_t step = 0;
  const Loss clean = task.loss();
  const Loss poisoned = [&](const PackedIds& batch, std::uint64_t seed) {
    LossSum loss = clean(batch, seed);
    if (++step == 4) {
      before = task.weights();
      loss.sum = loss.sum.mul(std::numeric_limits<float>::infinity());
    }
    if (step == 5) {
      EXPECT_EQ(before, task.weights());
    }
    return loss;
  };
  Trainer trainer(task.arena, task.source, poisoned, tiny_options(), {}, *comm,
                  {{},
                   [&](const StepReport& r) {
                     if (r.skipped) skipped.push_back(r.step);
                   },
                   {}});
  const TrainSummary summary = trainer.run();
  EXPECT_EQ(skipped, std::vector<std::int64_t>{4});
  EXPECT_EQ(summary.skipped, 1);
  EXPECT_NE(before, task.weights());
  EXPECT_TRUE(std::isfinite(summary.last_loss));
}

TEST(Trainer, GivesUpAfterManySkippedStepsInARow) {
  TinyTask task(240);
  const auto before = task.weights();
  const auto comm = make_single_communicator();
  const Loss clean = task.loss();
  const Loss poisoned = [&](const PackedIds& batch, std::uint64_t seed) {
    LossSum loss = clean(batch, seed);
    loss.sum = loss.sum.mul(std::numeric_limits<float>::quiet_NaN());
    return loss;
  };
  TrainOptions options = tiny_options();
  options.max_skipped = 3;
  std::int64_t reports = 0;
  Trainer trainer(task.arena, task.source, poisoned, options, {}, *comm,
                  {{}, [&](const StepReport&) { ++reports; }, {}});
  try {
    trainer.run();
    FAIL() << "did not give up";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::diverged);
    EXPECT_EQ(reports, 4);
  }
  EXPECT_EQ(before, task.weights());
}

TEST(Trainer, DescribesTheRunInOneLine) {
  TinyTask task(100);
  const auto comm = make_single_communicator();
  EXPECT_EQ(Trainer(task.arena, task.source, task.loss(), tiny_options(), {}, *comm).describe(),
            "training 816 parameters on 100 documents, 2 epochs, 10 steps: 1 ranks x micro-batch "
            "24 x accumulation 1 = global batch 24 documents; "
            "base rates model 0.01, model.no-decay 0.01 for a batch of 32, rule none, peak rates "
            "0.01, 0.01 after 1 steps, then linear; "
            "adamw, fp32, ddp; seed 42");
}

TEST(Trainer, ValidatesAfterEachEpoch) {
  TinyTask task(100);
  const auto comm = make_single_communicator();
  double value = 0;
  TrainOptions options = tiny_options();
  options.epochs = 3;
  Trainer trainer(task.arena, task.source, task.loss(), options, {}, *comm,
                  {{}, {}, [&](Trainer&) { return value += 1; }});
  EXPECT_EQ(trainer.run().validation, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(trainer.state().best_step, 15);
}

TEST(Trainer, AValidationThatIsNoNumberIsNeverTheBest) {
  TinyTask task(100);
  const auto comm = make_single_communicator();
  std::vector<double> values = {std::nan(""), .3, std::nan(""), .2};  // from the end
  TrainOptions options = tiny_options();
  options.epochs = 4;
  Trainer trainer(task.arena, task.source, task.loss(), options, {}, *comm,
                  {.validate = [&](Trainer&) {
                    const double value = values.back();
                    values.pop_back();
                    return value;
                  }});
  trainer.run();
  EXPECT_EQ(trainer.state().best_step, 15);
  EXPECT_EQ(trainer.state().best_metric, .3);
}

// Everything a checkpoint holds, put into a new Trainer in the middle of an epoch: the rest repeats
// bit for bit.
TEST(Trainer, GoesOnWhereAnotherStopped) {
  TrainOptions options = tiny_options();
  options.precision = "fp16";  // the scaler's state, too
  options.loss_scale_interval = 3;
  const auto comm = make_single_communicator();
  TinyTask whole(240), first(240), second(240);
  std::vector<double> expected, found;
  Trainer uninterrupted(whole.arena, whole.source, whole.loss(.1), options, {}, *comm,
                        {.report = [&](const StepReport& r) { expected.push_back(r.loss); }});
  const TrainSummary summary = uninterrupted.run();
  Trainer before(first.arena, first.source, first.loss(.1), options, {}, *comm,
                 {.report = [&](const StepReport& r) { found.push_back(r.loss); }});
  for (int step = 0; step < 14; ++step) before.step();
  Trainer after(second.arena, second.source, second.loss(.1), options, {}, *comm,
                {.report = [&](const StepReport& r) { found.push_back(r.loss); }});
  second.arena.parameters().copy_(first.arena.parameters());
  after.optimizer().first_moment().copy_(before.optimizer().first_moment());
  after.optimizer().second_moment().copy_(before.optimizer().second_moment());
  after.optimizer().set_steps(before.optimizer().steps());
  after.restore(before.state());
  const TrainSummary rest = after.run();
  EXPECT_EQ(found, expected);
  EXPECT_EQ(second.weights(), whole.weights());
  EXPECT_EQ(rest.first_loss, summary.first_loss);
  EXPECT_EQ(rest.last_loss, summary.last_loss);
  EXPECT_EQ(rest.tokens, summary.tokens);
}

TEST(Trainer, RefusesAnEmptySource) {
  TinyTask task(0);
  const auto comm = make_single_communicator();
  EXPECT_THROW(Trainer(task.arena, task.source, task.loss(), tiny_options(), {}, *comm), Error);
}

TEST(TrainOptions, AreDeclaredOnce) {
  config::OptionSet set;
  TrainOptions options;
  declare(set.section("train", "training"), options);
  set.parse({}, {"--train.batch", "64", "--train.decay", "cosine", "--train.precision", "bf16",
                 "--train.warmup", "500", "--train.micro-batch", "auto", "--train.lr-rule", "sqrt",
                 "--train.optimizer", "lamb"});
  EXPECT_EQ(options.batch, 64);
  EXPECT_EQ(options.decay_kind(), Decay::cosine);
  EXPECT_EQ(options.precision_kind(false), Precision::bf16);
  EXPECT_EQ(options.warmup, 500);
  EXPECT_EQ(options.micro_batch, -1);
  EXPECT_EQ(options.rate_rule, "sqrt");
  EXPECT_EQ(options.optimizer, "lamb");
  for (const Precision precision :
       {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    set.parse({}, {"--train.precision", name_of(precision)});
    EXPECT_EQ(options.precision_kind(false), precision);
    EXPECT_EQ(options.scaler_options(false).dynamic, precision == Precision::fp16);
  }
  EXPECT_THROW(set.parse({}, {"--train.precision", "fp8"}), Error);
}

}  // namespace
}  // namespace gpuhpc
