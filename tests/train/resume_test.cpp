// R2: a run stopped anywhere goes on to the same bits.
#include "resume_fixture.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "../io/expect_error.hpp"

namespace gpuhpc {
namespace {

using ::testing::HasSubstr;

class ResumeTest : public Resume {
 protected:
  const std::unique_ptr<Communicator> comm_ = make_single_communicator();
};

// Every stop comes in the middle of an accumulation; steps 10, 20, .. end an epoch.
TEST_F(ResumeTest, StoppedAtEachOf100StepsItEndsWithTheSameBits) {
  const Outcome whole = start(*comm_);
  ASSERT_EQ(whole.steps, 100);
  clear(*comm_);
  for (std::int64_t stop = 1; stop < 100; ++stop) {
    const Outcome part = start(*comm_, "ddp", stop);
    ASSERT_TRUE(part.stopped);
    ASSERT_EQ(part.steps, 1);
  }
  const Outcome last = start(*comm_, "ddp", 100);
  EXPECT_FALSE(last.stopped) << "nothing is left to stop";
  EXPECT_EQ(last.weights, whole.weights);
  EXPECT_EQ(last.losses, whole.losses);
  EXPECT_EQ(last.validation, whole.validation);
}

TEST_F(ResumeTest, StoppedOnceItEndsWithTheSameBits) {
  const Outcome whole = start(*comm_);
  const std::vector<std::int64_t> stops = {1, 2, 9, 10, 11, 19, 20, 21, 49, 50, 89, 90, 91, 98, 99};
  std::size_t equal = 0;
  for (const std::int64_t stop : stops) {
    clear(*comm_);
    ASSERT_TRUE(start(*comm_, "ddp", stop).stopped);
    const Outcome rest = start(*comm_);
    ASSERT_EQ(rest.resumed_after, stop);
    equal += rest.weights == whole.weights && rest.losses == whole.losses &&
             rest.validation == whole.validation;
  }
  EXPECT_EQ(equal, stops.size());
  std::printf(
      "stopped at 99 steps of one run, and at %zu steps of as many runs: the same weights and "
      "losses\n",
      equal);
}

// A run that is killed has only what was saved on the way. Best of sin(10), sin(20), .. sin(100) is
// sin(20).
TEST_F(ResumeTest, CheckpointsComeInTheirTimeAndTheBestStays) {
  options_.checkpoint_every = 7;
  // A checkpoint that falls due while another is written comes later: where the disk is slow, steps
  // this short would all pass before the best one is written.
  after_step_ = [&](std::int64_t step) {
    const auto written = folder_ / "step-00000020" / "part-00000-of-00001.bin";
    for (int i = 0; step == 21 && !std::filesystem::exists(written) && i < 3000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  const Outcome whole = start(*comm_);
  after_step_ = {};
  const std::vector<std::string> names = checkpoints();
  ASSERT_EQ(names.size(), 3U);
  EXPECT_EQ(names.front(), "step-00000020");
  EXPECT_EQ(names.back(), "step-00000100");
  std::filesystem::remove_all(folder_ / names.back());
  const Outcome again = start(*comm_);
  EXPECT_EQ(names.at(1), fmt::format("step-{:08d}", again.resumed_after));
  EXPECT_EQ(again.weights, whole.weights);
}

// Stopped before, at and after the best epoch, and started again after the end.
TEST_F(ResumeTest, TheBestEpochsWeightsAreTheSameHoweverOftenItWasStopped) {
  restore_best_ = true;
  const Outcome whole = start(*comm_);
  EXPECT_EQ(whole.weights, weights_of_step_20_);
  EXPECT_EQ(start(*comm_).weights, whole.weights) << "nothing is left to do but that";
  for (const std::int64_t stop : {7, 20, 21, 55, 99}) {
    clear(*comm_);
    ASSERT_TRUE(start(*comm_, "ddp", stop).stopped);
    const Outcome rest = start(*comm_);
    EXPECT_EQ(rest.resumed_after, stop);
    EXPECT_EQ(rest.weights, whole.weights) << stop;
  }
}

TEST_F(ResumeTest, ADamagedBestIsNamedAndNotReplacedByAnother) {
  restore_best_ = true;
  ASSERT_TRUE(start(*comm_, "ddp", 55).stopped);
  flip(folder_ / "step-00000020" / "part-00000-of-00001.bin", 12345);
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { start(*comm_); }),
              HasSubstr("step-00000020/part-00000-of-00001.bin: damaged"));
}

TEST_F(ResumeTest, AMicroBatchHalvedOnTheWayStaysHalved) {
  TrainerState state;
  state.step = 31;
  state.epoch = 3;
  state.batch = 1;
  state.batch_size = 8;
  state.micro_batch = 2;
  state.not_better = 3;
  state.loss_scale = 1024;
  const CheckpointState saved = to_checkpoint(state, 17);
  EXPECT_EQ(saved.values.at("optimizer_steps"), 17);
  const TrainerState back = from_checkpoint(saved);
  EXPECT_EQ(back.epoch, 3);
  EXPECT_EQ(back.batch, 1);
  EXPECT_EQ(back.micro_batch, 2);
  EXPECT_EQ(back.not_better, 3);
  EXPECT_EQ(back.loss_scale, 1024);
  EXPECT_EQ(back.best_step, 0);
  EXPECT_EQ(back.best_metric, -std::numeric_limits<double>::infinity());
  state.best_step = state.validated_at = 31, state.metric = state.best_metric = -.7;
  EXPECT_EQ(from_checkpoint(to_checkpoint(state, 17)).best_metric, -.7);
}

// A position counts batches: it means nothing among batches of another size.
TEST_F(ResumeTest, ACheckpointOfOtherBatchesIsRefused) {
  ASSERT_TRUE(start(*comm_, "ddp", 30).stopped);
  options_.batch = 12;
  EXPECT_THAT(error_of(ExitCode::configuration, [&] { start(*comm_); }),
              HasSubstr("was made with batches of 8, these are of 12"));
}

// Four epochs and forty: what is kept of a run does not grow with its steps.
TEST_F(ResumeTest, ACheckpointIsAsLargeAfterManyStepsAsAfterFew) {
  std::vector<std::uintmax_t> bytes;
  std::vector<std::size_t> fields;
  for (const std::int64_t epochs : {4, 40}) {
    clear(*comm_);
    options_.epochs = epochs;
    options_.checkpoint_every = 10 * epochs;
    const Outcome outcome = start(*comm_);
    ASSERT_EQ(outcome.steps, 10 * epochs);
    const auto newest = folder_ / checkpoints().back();
    bytes.push_back(std::filesystem::file_size(newest / "part-00000-of-00001.bin"));
    fields.push_back(to_checkpoint(outcome.state, 1).values.flatten().size());
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_EQ(fields[0], fields[1]);
}

TEST_F(ResumeTest, ASaveThatFailsEndsTheRunAndTheCheckpointBeforeLoads) {
  ASSERT_TRUE(start(*comm_, "ddp", 30).stopped);
  options_.checkpoint_every = 20;
  after_step_ = [&](std::int64_t step) {
    if (step == 39)
      std::filesystem::create_directories(folder_ / "step-00000040" /
                                          "part-00000-of-00001.bin");  // cannot be written
  };
  EXPECT_THAT(error_of(ExitCode::io, [&] { start(*comm_); }),
              HasSubstr("the checkpoint of step 40 failed"));
  after_step_ = {};
  EXPECT_EQ(start(*comm_, "ddp", 60).resumed_after, 30);
}

// As self-training does that gets no better.
TEST_F(ResumeTest, ATaskThatEndsTheTrainingWaitsForItsCheckpoint) {
  options_.checkpoint_every = 40;  // one alone: it would come later while another is being written
  task_ends_at_ = 40;
  start(*comm_);
  EXPECT_EQ(checkpoints().back(), "step-00000040");
  EXPECT_TRUE(std::filesystem::exists(folder_ / checkpoints().back() / "manifest.json"));
  clear(*comm_);
  after_step_ = [&](std::int64_t step) {
    if (step == 39)
      std::filesystem::create_directories(folder_ / "step-00000040" / "manifest.json.tmp");
  };
  EXPECT_THAT(error_of(ExitCode::io, [&] { start(*comm_); }),
              HasSubstr("the checkpoint of step 40 failed"));
}

}  // namespace
}  // namespace gpuhpc
