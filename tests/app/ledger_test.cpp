// Stages in order, stopped by a signal between them or inside one; what outlives that.
#include "gpuhpc/app/ledger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() {
    config::Section& section = set_.section("train", "training");
    section.option("rate", rate_, "");
    section.option("micro-batch", micro_batch_, "");
    log_ = make_console_log(1);
    fs::remove_all(run_);
  }
  ~LedgerTest() override { fs::remove_all(run_); }
  Stage stage(const std::string& name, std::vector<std::string> after) {
    return {name,
            {"train."},
            {},
            std::move(after),
            {"out.txt"},
            [this, name](const StageContext& c) {
              ran_.push_back(name);
              tasks_[name] = c.task;
              write_text_file(c.folder / "half.txt", "half");
              create_folder(c.checkpoints);
              checkpoint_was_there_ = fs::exists(c.checkpoints / "step.txt");
              write_text_file(c.checkpoints / "step.txt", "7");
              if (during_) during_(c, name);
              write_text_file(c.folder / "out.txt", name);
            },
            {"train.micro-batch"}};
  }
  int run() {
    ran_.clear();
    try {
      run_stages({stage("first", {}), stage("second", {"first"})}, set_, {}, run_, *comm_, log_, {},
                 StopSignals::requested);
      return 0;
    } catch (const Error& error) {
      EXPECT_TRUE(error.on_all_ranks());
      return static_cast<int>(error.code());
    }
  }
  double rate_ = 1;
  std::int64_t micro_batch_ = 8;
  config::OptionSet set_;
  const std::unique_ptr<Communicator> comm_ = make_single_communicator();
  Log log_;
  const fs::path run_ = fs::temp_directory_path() / ("gpuhpc-ledger-" + std::to_string(::getpid()));
  std::vector<std::string> ran_;
  std::map<std::string, CheckpointTask> tasks_;
  bool checkpoint_was_there_ = false;
  std::function<void(const StageContext&, const std::string&)> during_;
};

TEST_F(LedgerTest, ASignalStopsBeforeTheNextStageAndTheFinishedOneIsKept) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    fs::remove_all(run_);
    {
      const StopSignals signals;
      EXPECT_FALSE(StopSignals::requested());
      during_ = [&](const StageContext&, const std::string&) { std::raise(signal); };
      EXPECT_EQ(run(), 75);
      EXPECT_THAT(ran_, ElementsAre("first"));
    }
    during_ = {};
    const StopSignals signals;
    EXPECT_EQ(run(), 0);
    EXPECT_THAT(ran_, ElementsAre("second"));
  }
}

TEST_F(LedgerTest, CheckpointsOutliveAStoppedStageButNotAFinishedOne) {
  const StopSignals signals;
  during_ = [&](const StageContext& c, const std::string& name) {
    if (name == "second") std::raise(SIGTERM);
    c.leave_together_if_asked();
  };
  EXPECT_EQ(run(), 75);
  EXPECT_THAT(ran_, ElementsAre("first", "second"));
  EXPECT_FALSE(fs::exists(run_ / "checkpoints/first"));
  EXPECT_TRUE(fs::exists(run_ / "checkpoints/second" /
                         tasks_.at("second").fingerprint.substr(0, 16) / "step.txt"));
  during_ = {};
  const StopSignals again;
  EXPECT_EQ(run(), 0);
  EXPECT_TRUE(checkpoint_was_there_);
  EXPECT_FALSE(fs::exists(run_ / "checkpoints"));
  EXPECT_FALSE(fs::exists(run_ / "stages/02-second.partial"));
}

TEST_F(LedgerTest, ACheckpointBelongsToTheOptionsButNotToTheFreeOnes) {
  EXPECT_EQ(run(), 0);
  const auto before = tasks_;
  EXPECT_THAT(before.at("second").options, testing::Each("train.rate = 1"));
  EXPECT_NE(before.at("first").fingerprint, before.at("second").fingerprint);
  micro_batch_ = 4;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(ran_, ElementsAre()) << "finished all the same";
  rate_ = 2;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(ran_, ElementsAre("first", "second"));
  EXPECT_NE(tasks_.at("first").fingerprint, before.at("first").fingerprint);
}

TEST_F(LedgerTest, OtherOptionsStartAfreshAndTheOldOnesFindTheirCheckpointsAgain) {
  during_ = [&](const StageContext&, const std::string& name) {
    if (name == "second") throw Error(ExitCode::requeue, "stopped", true);
  };
  EXPECT_EQ(run(), 75);
  rate_ = 2;
  EXPECT_EQ(run(), 75);
  EXPECT_FALSE(checkpoint_was_there_);
  rate_ = 1;
  EXPECT_EQ(run(), 75);
  EXPECT_TRUE(checkpoint_was_there_);
  rate_ = 2;
  during_ = {};
  EXPECT_EQ(run(), 0);
  EXPECT_TRUE(checkpoint_was_there_);
  rate_ = 1;
  EXPECT_EQ(run(), 0);
  EXPECT_TRUE(checkpoint_was_there_) << "a run of other options that ended took nothing away";
}

TEST_F(LedgerTest, SignalsAreTheirOldSelvesAfterwardsUnlessTheRunLeaves) {
  static int caught = 0;
  std::signal(SIGUSR1, [](int) { ++caught; });
  { const StopSignals signals; }
  std::raise(SIGUSR1);
  EXPECT_EQ(caught, 1);
  {
    const StopSignals signals;
    std::raise(SIGUSR1);
    EXPECT_TRUE(StopSignals::requested());
  }
  std::raise(SIGUSR1);
  std::raise(SIGTERM);  // what a launcher sends to the ranks that leave last
  EXPECT_EQ(caught, 1);
  std::signal(SIGUSR1, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

TEST_F(LedgerTest, TheFirstCtrlCAsksAndTheNextOneIsNotCaught) {
  const auto action_of_interrupt = [] {
    struct sigaction now {};
    sigaction(SIGINT, nullptr, &now);
    return now.sa_handler;
  };
  {
    const StopSignals signals;
    testing::internal::CaptureStderr();
    std::raise(SIGINT);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "stopping after this step; press Ctrl-C again to leave at once\n");
    EXPECT_TRUE(StopSignals::requested());
    EXPECT_EQ(action_of_interrupt(), SIG_DFL);
  }
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGUSR1, SIG_DFL);
  std::signal(SIGINT, SIG_IGN);  // a background job
  {
    const StopSignals signals;
    std::raise(SIGINT);
    EXPECT_FALSE(StopSignals::requested());
  }
  EXPECT_EQ(action_of_interrupt(), SIG_IGN);
  std::signal(SIGINT, SIG_DFL);
}

TEST_F(LedgerTest, ASignalThatComesBeforeTheRunWaitsForIt) {
  hold_stop_signals();
  std::raise(SIGUSR1);
  const StopSignals signals;
  EXPECT_TRUE(StopSignals::requested());
}

}  // namespace
}  // namespace gpuhpc
