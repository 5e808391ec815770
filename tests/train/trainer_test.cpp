#include "gpuhpc/train/trainer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <sstream>
#include <thread>

#include "../comm/over_another.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/train/sampler.hpp"
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
  Trainer trainer(task.arena, task, options, {.comm = *comm, .report = [&](const StepReport& r) {
                                                outcome.reports.push_back(r);
                                              }});
  outcome.summary = trainer.run();
  outcome.weights = task.weights();
  return outcome;
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
  EXPECT_LT(mean_of_losses(std::span(outcome.reports).last(10)), .9);
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
    EXPECT_EQ(report.learning_rate_multiplier,
              learning_rate_multiplier(schedule, static_cast<std::int64_t>(i)));
    EXPECT_EQ(report.documents, 24);
    EXPECT_GT(report.gradient_norm, 0);
    EXPECT_GT(report.tokens_per_second, 0);
    tokens += report.tokens;
  }
  EXPECT_EQ(outcome.summary.tokens, tokens);
}

// Packing takes at least 3 ms per micro-batch here.
TEST(Trainer, TellsWhereTheTimeOfEachStepWent) {
  class SlowTask final : public TinyTask {
   public:
    using TinyTask::TinyTask;
    PackedIds pack(std::span<const std::int64_t> items) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      return TinyTask::pack(items);
    }
  };
  SlowTask task(100);
  const auto comm = make_single_communicator();
  TrainOptions options = tiny_options();
  options.micro_batch = 8;
  double data = 0, compute = 0;
  std::int64_t tokens = 0;
  const auto check = [&](const StepReport& r) {
    EXPECT_GE(r.data_seconds, .001 * 3 * static_cast<double>((r.documents + 7) / 8));
    EXPECT_GT(std::min({r.compute_seconds, r.exposed_communication_seconds, r.update_seconds}), 0);
    EXPECT_NEAR(
        r.data_seconds + r.compute_seconds + r.exposed_communication_seconds + r.update_seconds,
        r.step_seconds, 1e-9);
    data += r.data_seconds, compute += r.compute_seconds, tokens += r.tokens;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  Trainer trainer(task.arena, task, options, {.comm = *comm, .report = check});
  const TrainSummary summary = trainer.run();
  EXPECT_EQ(summary.own_steps, 10);
  EXPECT_EQ(summary.own_tokens, tokens);
  EXPECT_NEAR(summary.data_seconds, data, 1e-9);
  EXPECT_NEAR(summary.compute_seconds, compute, 1e-9);
  EXPECT_GE(summary.other_seconds, .002 * 10);
  EXPECT_NEAR(summary.data_seconds + summary.compute_seconds +
                  summary.exposed_communication_seconds + summary.update_seconds +
                  summary.other_seconds,
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
  task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
    LossSum loss = task.plain(batch, seed);
    if (++step == 4) {
      before = task.weights();
      loss.sum = loss.sum.mul(std::numeric_limits<float>::infinity());
    }
    if (step == 5) {
      EXPECT_EQ(before, task.weights());
    }
    return loss;
  };
  double last = 0;
  Trainer trainer(task.arena, task, tiny_options(),
                  {.comm = *comm, .report = [&](const StepReport& r) {
                     last = r.loss;
                     if (r.skipped) skipped.push_back(r.step);
                   }});
  const TrainSummary summary = trainer.run();
  EXPECT_EQ(skipped, std::vector<std::int64_t>{4});
  EXPECT_EQ(summary.skipped, 1);
  EXPECT_NE(before, task.weights());
  EXPECT_TRUE(std::isfinite(last));
}

TEST(Trainer, GivesUpAfterManySkippedStepsInARow) {
  TinyTask task(240);
  const auto before = task.weights();
  const auto comm = make_single_communicator();
  task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
    LossSum loss = task.plain(batch, seed);
    loss.sum = loss.sum.mul(std::numeric_limits<float>::quiet_NaN());
    return loss;
  };
  TrainOptions options = tiny_options();
  options.max_skipped = 3;
  std::int64_t reports = 0;
  Trainer trainer(task.arena, task, options,
                  {.comm = *comm, .report = [&](const StepReport&) { ++reports; }});
  try {
    trainer.run();
    FAIL() << "did not give up";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::diverged);
    EXPECT_EQ(reports, 4);
  }
  EXPECT_EQ(before, task.weights());
}

TEST(Trainer, ATrainingWithoutOneUpdateIsNoModel) {
  TinyTask task(100);
  const auto comm = make_single_communicator();
  task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
    LossSum loss = task.plain(batch, seed);
    loss.sum = loss.sum.mul(std::numeric_limits<float>::quiet_NaN());
    return loss;
  };
  TrainOptions options = tiny_options();
  options.max_skipped = 1000;
  Trainer trainer(task.arena, task, options, {.comm = *comm});
  try {
    trainer.run();
    FAIL() << "came to its end";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::diverged);
  }
}

TEST(Trainer, DescribesTheRunInOneLine) {
  TinyTask task(100);
  const auto comm = make_single_communicator();
  EXPECT_EQ(Trainer(task.arena, task, tiny_options(), {.comm = *comm}).describe(),
            "training 816 parameters on 100 documents, 2 epochs, 10 steps: 1 ranks x micro-batch "
            "24 x accumulation 1 = global batch 24 documents; base rates model 0.01, "
            "model.no-decay 0.01 for a batch of 32, rule none, peak rates 0.01, 0.01 after 1 "
            "steps, then linear; adamw, fp32, ddp; no loader threads; seed 42");
}

TEST(Trainer, ABatchOfMoreThanThereIsIsSaidAndHasTheRatesOfWhatThereIs) {
  const auto comm = make_single_communicator();
  const auto train = [&](std::int64_t batch, std::string* said = nullptr) {
    TinyTask task(100);
    std::ostringstream text;
    const Log log = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
    TrainOptions options = tiny_options();
    options.batch = batch, options.micro_batch = 24, options.rate_rule = "linear";
    Trainer(task.arena, task, options, {.comm = *comm, .log = log}).run();
    if (said) *said = text.str();
    return task.weights();
  };
  std::string said, unsaid;
  EXPECT_EQ(train(100'000, &said), train(100, &unsaid));
  EXPECT_THAT(said, testing::HasSubstr(
                        "no batch of this training has 100000 documents: the largest has 100"));
  EXPECT_THAT(said, testing::HasSubstr("peak rates 0.03125, 0.03125 after"));  // .01 x 100 / 32
  EXPECT_THAT(unsaid, testing::Not(testing::HasSubstr("no batch of this training")));
}

// Validation of 100 documents and these; their loss is minus `values`, one an epoch.
TrainerState validate(std::vector<double> values, std::int64_t patience = 0) {
  TinyTask task(110);
  const auto comm = make_single_communicator();
  std::size_t epoch = 0;
  task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
    if (seed) return task.plain(batch, seed);
    EXPECT_EQ(batch.documents, (std::vector<std::int64_t>{7, 50}));
    return LossSum{at::scalar_tensor(-2 * values.at(epoch++), at::kDouble), 2};
  };
  TrainOptions options = tiny_options();
  Course course = options.course();
  course.epochs = std::ssize(values), course.validation_items = {50, 7};
  options.micro_batch = 24, options.patience = patience;
  Trainer trainer(task.arena, task, options, {.comm = *comm}, course);
  trainer.run();
  EXPECT_EQ(epoch, static_cast<std::size_t>(trainer.state().epoch) + 1);
  return trainer.state();
}

TEST(Trainer, ValidatesAfterEachEpochWhatItDoesNotLearn) {
  const TrainerState state = validate({1, 2, 3});
  EXPECT_EQ(state.best_step, 15);
  EXPECT_EQ(state.documents, 3 * 108);
}

TEST(Trainer, AValidationThatIsNoNumberIsNeverTheBest) {
  const TrainerState state = validate({.2, std::nan(""), .3, std::nan("")});
  EXPECT_EQ(state.best_step, 15);
  EXPECT_EQ(state.best_metric, .3);
}

TEST(Trainer, EndsAfterSoManyValidationsInARowThatWereNotTheBest) {
  const TrainerState state = validate({.2, .1, .3, .25, .3, .9}, 2);
  EXPECT_EQ(state.step, 25);  // five epochs: .1 was followed by the best, .25 and .3 were not
  EXPECT_EQ(state.best_step, 15);
  EXPECT_EQ(validate({.2, .1, .3, .25}, 2).step, 20);
}

// The rows are those of the validation items in their order, and the largest figure is the best,
// not the least loss; measured every second step.
TEST(Trainer, AFigureOfTheRowsTellsTheBestValidation) {
  class Rows : public TinyTask {
   public:
    using TinyTask::TinyTask;
    at::Tensor represent(std::span<const std::int64_t> items, DropoutSeed) override {
      std::vector<float> rows;
      for (const std::int64_t item : items)
        rows.insert(rows.end(), {static_cast<float>(item), .5F});
      return at::tensor(rows).reshape({std::ssize(items), 2});
    }
    std::string figure_name() const override { return "figure"; }
    double figure(const at::Tensor& rows, std::span<const std::int64_t> items,
                  Communicator&) override {
      EXPECT_EQ(std::vector(items.begin(), items.end()), (std::vector<std::int64_t>{7, 9, 50}));
      EXPECT_TRUE(rows.equal(at::tensor({7., .5, 9., .5, 50., .5}, at::kFloat).reshape({3, 2})));
      return std::vector<double>{.1, .7, .4, .2, .3}.at(measured++);
    }
    std::size_t measured = 0;
  } task(110);
  const auto comm = make_single_communicator();
  TrainOptions options = tiny_options();
  options.micro_batch = 2, options.validate_every = 2;
  Course course = options.course();
  course.validation_items = {50, 7, 9};
  Trainer trainer(task.arena, task, options, {.comm = *comm}, course);
  trainer.run();
  EXPECT_EQ(task.measured, 5u);
  EXPECT_EQ(trainer.state().best_step, 4);
  EXPECT_EQ(trainer.state().best_metric, .7);
}

// Everything a checkpoint holds, put into a new Trainer in the middle of an epoch: the rest repeats
// bit for bit.
TEST(Trainer, GoesOnWhereAnotherStopped) {
  TrainOptions options = tiny_options();
  options.precision = "fp16";  // the scaler's state, too
  options.loss_scale_interval = 3;
  const auto comm = make_single_communicator();
  TinyTask whole(240, 1, .1), first(240, 1, .1), second(240, 1, .1);
  std::vector<double> expected, found;
  const auto note = [&](std::vector<double>& losses) {
    return TrainContext{.comm = *comm,
                        .report = [&](const StepReport& r) { losses.push_back(r.loss); }};
  };
  const TrainSummary summary = Trainer(whole.arena, whole, options, note(expected)).run();
  Trainer before(first.arena, first, options, note(found));
  for (int step = 0; step < 14; ++step) before.step();
  Trainer after(second.arena, second, options, note(found));
  second.arena.parameters().copy_(first.arena.parameters());
  after.optimizer().first_moment().copy_(before.optimizer().first_moment());
  after.optimizer().second_moment().copy_(before.optimizer().second_moment());
  after.optimizer().set_steps(before.optimizer().steps());
  after.restore(before.state());
  const TrainSummary rest = after.run();
  EXPECT_EQ(found, expected);
  EXPECT_EQ(second.weights(), whole.weights());
  EXPECT_EQ(rest.tokens, summary.tokens);
}

TEST(Trainer, RefusesATaskWithoutItems) {
  TinyTask task(0);
  const auto comm = make_single_communicator();
  EXPECT_THROW(Trainer(task.arena, task, tiny_options(), {.comm = *comm}), Error);
}

// Two groups, two rates: a step of AdamW without decay moves each weight by about its group's own.
TEST(Trainer, EachGroupLearnsAtItsOwnRate) {
  TinyModel model;
  std::vector<ParameterSlot> slots = trained_parameters(model);
  ParameterArena arena({{"slow", 1e-4, 0, {slots.begin(), slots.end() - 1}},
                        {"fast", 3e-2, 0, {slots.end() - 1, slots.end()}}});
  const at::Tensor before = arena.parameters().clone();
  TinyTask task(240);
  task.compute = [&](const PackedIds& batch, DropoutSeed) {
    return LossSum{
        soft_target_cross_entropy(model.logits(batch),
                                  gather_rows(task.source.targets.view(), batch.documents)),
        static_cast<double>(batch.size())};
  };
  const auto comm = make_single_communicator();
  TrainOptions options = tiny_options();
  options.warmup = 0;
  Trainer(arena, task, options, {.comm = *comm}).step();
  for (const auto& group : arena.groups()) {
    const at::Tensor moved =
        (arena.parameters() - before).abs().narrow(0, group.range.first, group.range.size());
    EXPECT_NEAR(moved.max().item<double>(), group.learning_rate, .01 * group.learning_rate)
        << group.name;
  }
}

TEST(Trainer, StepsInPlaceOfEpochsAndADocumentsCourseOfItsOwn) {
  TinyTask task(100);
  const auto comm = make_single_communicator();
  TrainOptions options = tiny_options();  // 2 epochs of 5 steps
  options.max_steps = 13;
  std::vector<std::int64_t> epochs;
  const auto note = [&](const StepReport& r) { epochs.push_back(r.epoch); };
  EXPECT_EQ(Trainer(task.arena, task, options, {.comm = *comm, .report = note}).run().steps, 13);
  EXPECT_EQ(epochs, (std::vector<std::int64_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2}));
  std::vector<double> rates;
  const Course constant{.max_steps = 3};
  Trainer(task.arena, task, options,
          {.comm = *comm,
           .report = [&](const StepReport& r) { rates.push_back(r.learning_rate_multiplier); }},
          constant)
      .run();
  EXPECT_EQ(rates, (std::vector<double>{1, 1, 1}));
}

// A task may look at the model before each step, and end the training.
TEST(Trainer, ATaskMayEndTheTraining) {
  class Ending final : public TinyTask {
   public:
    using TinyTask::TinyTask;
    bool before_step(std::int64_t step) override {
      asked.push_back(step);
      return step < 3;
    }
    std::vector<std::int64_t> asked;
  };
  Ending task(100);
  const auto comm = make_single_communicator();
  const ScratchFolder folder;
  EXPECT_EQ(Trainer(task.arena, task, tiny_options(),
                    {.comm = *comm,
                     .profile = {"2-9"},  // what was recorded until then is written
                     .run_folder = folder / "",
                     .stage = "tiny"})
                .run()
                .steps,
            3);
  EXPECT_EQ(task.asked, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(std::filesystem::exists(folder / "trace/tiny/rank-00000.json"));
}

// What a task's loss needs may be made before the first step, and --train.micro-batch auto tries
// the loss.
TEST(Trainer, TheMicroBatchIsTriedWhenTheTaskIsReady) {
  class Targets final : public TinyTask {
   public:
    using TinyTask::TinyTask;
    bool before_step(std::int64_t /*step*/) override { return ready = true; }
    LossSum loss(std::span<const std::int64_t> items, DropoutSeed seed) override {
      if (!ready) throw std::logic_error("no targets yet");
      return TinyTask::loss(items, seed);
    }
    bool ready = false;
  };
  Targets task(100);
  const auto comm = make_single_communicator();
  TrainOptions options = tiny_options();
  options.micro_batch = -1;
  EXPECT_EQ(Trainer(task.arena, task, options, {.comm = *comm}).run().steps, 10);
}

// A collective fails behind its wait().
class Lost final : public OverAnother {
 public:
  using OverAnother::OverAnother;
  void check() override {
    if (lost) throw Error(ExitCode::peer, "rank 1 on b: NCCL failed");
  }
  bool lost = false;
};

// Sums that failed may be finite, and still nothing learns from them. The weights of the last of
// ten updates travel behind its agreement, and no step comes that would ask.
TEST(Trainer, NothingIsLearntFromSumsThatFailed) {
  for (const std::int64_t step : {3, 10}) {
    const auto single = make_single_communicator();
    Lost comm(*single);
    TinyTask task(100);
    std::vector<float> last;
    Trainer trainer(task.arena, task, tiny_options(), {.comm = comm, .report = [&](const auto& r) {
                                                         last = task.weights();
                                                         comm.lost = r.step == step;
                                                       }});
    try {
      trainer.run();
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::peer);
    }
    EXPECT_EQ(trainer.state().step, step);
    EXPECT_EQ(task.weights(), last);
  }
}

TEST(TrainOptions, AreDeclaredOnce) {
  config::OptionSet set;
  TrainOptions options;
  declare(set.section("train", "training"), options);
  set.parse({}, {"--train.batch", "64", "--train.decay", "cosine", "--train.precision", "bf16",
                 "--train.warmup", "500", "--train.micro-batch", "auto", "--train.lr-rule",
                 "linear", "--train.optimizer", "lamb"});
  EXPECT_EQ(options.batch, 64);
  EXPECT_EQ(options.decay_kind(), Decay::cosine);
  EXPECT_EQ(options.precision_kind(at::kCPU), Precision::bf16);
  EXPECT_EQ(options.warmup, 500);
  EXPECT_EQ(options.micro_batch, -1);
  EXPECT_EQ(options.rate_rule, "linear");
  EXPECT_EQ(options.optimizer, "lamb");
  for (const Precision precision :
       {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    set.parse({}, {"--train.precision", name_of(precision)});
    EXPECT_EQ(options.precision_kind(at::kCPU), precision);
    EXPECT_EQ(options.scaler_options(at::kCPU).dynamic, precision == Precision::fp16);
  }
  EXPECT_THROW(set.parse({}, {"--train.precision", "fp8"}), Error);
}

TEST(TrainOptions, ABatchIsGivenForAllRanksOrForEach) {
  const auto check = [](const std::vector<std::string>& words) {
    config::OptionSet set;
    TrainOptions options;
    declare(set.section("train", "training"), options);
    set.parse({}, words);
    options.check(set);
    return options.global_batch(3);
  };
  EXPECT_EQ(check({}), 32);
  EXPECT_EQ(check({"--train.batch", "24"}), 24);
  EXPECT_EQ(check({"--train.batch-per-rank", "5"}), 15);
  EXPECT_THROW(check({"--train.batch-per-rank", "5", "--train.batch", "48"}), Error);
  EXPECT_THROW(check({"--train.batch-per-rank", "5", "--train.batch-tokens", "500"}), Error);
  EXPECT_THROW(check({"--train.restore", "best"}), Error);
}

}  // namespace
}  // namespace gpuhpc
