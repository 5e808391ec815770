// Stages in order, stopped by a signal between them or inside one; what outlives that.
#include "gpuhpc/app/ledger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/thread.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

struct RateOptions {
  static constexpr const char* section = "train";
  double rate = 1;
  std::int64_t micro_batch = 8;
};
void declare(config::Section& section, RateOptions& o) {
  section.option("rate", o.rate, "");
  section.option("micro-batch", o.micro_batch, "").execution();
}

// What the stages of these tests did, and what happens in the middle of one.
struct Watched {
  std::vector<std::string> ran;
  std::map<std::string, CheckpointTask> tasks;
  bool checkpoint_was_there = false;
  std::function<void(const StageContext&)> during;
};

struct TextFiles : StageFiles {
  using StageFiles::StageFiles;
  fs::path text = output("out.txt");
};

struct Nothing {
  std::vector<fs::path> files() const { return {}; }
};
struct InputFile {
  fs::path path;
  std::vector<fs::path> files() const { return {path}; }
};
struct Spy : Nothing {  // it reaches every stage of a test and is no part of its fingerprint
  explicit Spy(Watched* of) : watched(of) {}
  Watched* watched;
};

template <class Input, std::int64_t form = 0>
struct WritingStage {
  using Outputs = TextFiles;
  static constexpr std::int64_t format = form;
  Input input;
  RateOptions options;
  Spy spy;
  void run(const StageContext& c, const TextFiles& out) const {
    Watched& w = *spy.watched;
    w.ran.push_back(c.name);
    w.tasks[c.name] = c.task;
    if (!c.comm.is_root()) {  // the root writes for all
      if (w.during) w.during(c);
      return;
    }
    write_text_file(out.folder() / "half.txt", "half");
    create_folder(c.checkpoints);
    w.checkpoint_was_there = fs::exists(c.checkpoints / "step.txt");
    write_text_file(c.checkpoints / "step.txt", "7");
    if (w.during) w.during(c);
    write_text_file(out.text, c.name);
  }
};

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() {
    fs::remove_all(run_);
    write_text_file(input_, "corpus");
  }
  ~LedgerTest() override {
    fs::remove_all(run_);
    fs::remove(input_);
  }
  // first, and second which reads it; with `between` a stage of its own in the middle.
  Pipeline pipeline(bool between = false) {
    Pipeline pipeline(run_);
    const TextFiles first =
        pipeline.add("first", WritingStage<InputFile>{{input_}, options_, Spy(&watched_)});
    if (between)
      pipeline.add("between", WritingStage<InputFile>{{input_}, options_, Spy(&watched_)});
    pipeline.add("second", WritingStage<TextFiles>{first, options_, Spy(&watched_)});
    return pipeline;
  }
  int run(const PipelineRange& range = {}, bool between = false) {
    watched_.ran.clear();
    try {
      run_stages(pipeline(between), range, *comm_, log_, {}, StopSignals::requested);
      return 0;
    } catch (const Error& error) {
      EXPECT_TRUE(error.on_all_ranks());
      return static_cast<int>(error.code());
    }
  }
  RateOptions options_;
  Watched watched_;
  const std::unique_ptr<Communicator> comm_ = make_single_communicator();
  std::ostringstream said_;
  Log log_ = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(said_));
  const fs::path run_ = fs::temp_directory_path() / ("gpuhpc-ledger-" + std::to_string(::getpid()));
  const fs::path input_ = run_.string() + ".txt";
};

TEST_F(LedgerTest, AStageThatIsForcedTakesItsReadersWithIt) {
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(run({"", "", "first"}), 0);
  EXPECT_THAT(watched_.ran, ElementsAre("first", "second"));
  EXPECT_EQ(run({"", "", "second"}), 0);
  EXPECT_THAT(watched_.ran, ElementsAre("second"));
}

TEST_F(LedgerTest, AKillBehindAForcedStageLeavesItsReadersStale) {
  EXPECT_EQ(run(), 0);
  watched_.during = [](const StageContext& c) {
    if (c.name == "second") throw Error(ExitCode::requeue, "stopped", true);
  };
  EXPECT_EQ(run({"", "", "first"}), 75);
  watched_.during = {};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(watched_.ran, ElementsAre("second"));
}

TEST_F(LedgerTest, AStageMoreRerunsNoOther) {
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(run({}, /*between=*/true), 0);
  EXPECT_THAT(watched_.ran, ElementsAre("between"));
  EXPECT_TRUE(fs::exists(run_ / "stages/03-second/out.txt"));
  EXPECT_FALSE(fs::exists(run_ / "stages/02-second"));
  EXPECT_THAT(Ledger(run_).order(), ElementsAre("first", "between", "second"));
}

// The longer pipeline ends before its last stage, which the shorter one left under another number.
TEST_F(LedgerTest, FoldersOfAStageUnderTwoNumbersDoNoHarm) {
  EXPECT_EQ(run(), 0);
  options_.rate = 2;
  EXPECT_EQ(run({"", "between", ""}, true), 0);
  for (const bool between : {true, false, true, false}) EXPECT_EQ(run({}, between), 0) << between;
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(run_ / "stages"))
    if (entry.path().filename().string().ends_with("-second"))
      folders.push_back(entry.path().filename().string());
  EXPECT_THAT(folders, ElementsAre("02-second"));
}

// A program of another version may leave files that the later stages of this one do not read.
TEST_F(LedgerTest, AStageThatLeavesAnotherFormRunsAgain) {
  const auto run_with = [&](const auto& second) {
    watched_.ran.clear();
    Pipeline pipeline(run_);
    const TextFiles first =
        pipeline.add("first", WritingStage<InputFile>{{input_}, options_, Spy(&watched_)});
    pipeline.add("second", second(first));
    run_stages(pipeline, {}, *comm_, log_, {}, StopSignals::requested);
    return watched_.ran;
  };
  const auto before = [&](const TextFiles& first) {
    return WritingStage<TextFiles, 1>{first, options_, Spy(&watched_)};
  };
  const auto after = [&](const TextFiles& first) {
    return WritingStage<TextFiles, 2>{first, options_, Spy(&watched_)};
  };
  EXPECT_THAT(run_with(before), ElementsAre("first", "second"));
  EXPECT_THAT(run_with(before), ElementsAre());
  EXPECT_THAT(run_with(after), ElementsAre("second"));
}

TEST_F(LedgerTest, ContentCountsNotSizeOrName) {
  EXPECT_EQ(run(), 0);
  write_text_file(input_, "corpse");
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(watched_.ran, ElementsAre("first", "second")) << "an input of the same size";
  write_text_file(run_ / "stages/02-second/out.txt", "secund");
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(watched_.ran, ElementsAre("second")) << "an output of the same size";
  EXPECT_THAT(said_.str(), HasSubstr("02-second/out.txt: not as the stage second left it"));
}

TEST_F(LedgerTest, AnInputThatIsNoEarlierStageThrows) {
  Pipeline pipeline(run_);
  EXPECT_THAT(
      [&] {
        pipeline.add("second",
                     WritingStage<TextFiles>{TextFiles("first", run_), options_, Spy(&watched_)});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("no earlier stage")));
}

TEST_F(LedgerTest, AStageNameThatIsNotThereIsRefused) {
  EXPECT_THAT(
      [&] {
        check_pipeline(pipeline(), {"third", "", ""});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr(
          "--pipeline.from third: no such stage; the stages are first, second")));
}

// Rank 0 runs it on a communicator of its own. The other rank waits longer than its time limit.
TEST_F(LedgerTest, AStageThatOneRankRunsAlone) {
  ParallelOptions parallel;
  parallel.timeout = 1;
  std::vector<Watched> watched(2);
  std::vector<std::vector<int>> sizes(2);
  std::vector<int> ends(2);
  std::atomic<bool> asked = false;  // rank 1, to stop
  const auto run_both = [&](const PipelineRange& range) {
    run_thread_ranks(2, parallel, [&](Communicator& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      sizes[rank].clear(), watched[rank].ran.clear();
      const bool fails = static_cast<bool>(watched[rank].during);
      if (!fails)
        watched[rank].during = [&](const StageContext& c) {
          sizes[rank].push_back(c.comm.size());
          if (c.comm.size() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1300));
        };
      Pipeline stages(run_);
      const TextFiles first =
          stages.add("first", WritingStage<InputFile>{{input_}, options_, Spy(&watched[rank])});
      stages.add("second", WritingStage<TextFiles>{first, options_, Spy(&watched[rank])});
      ends[rank] = 0;
      try {
        run_stages(stages, range, comm, log_, {}, [&] { return asked && rank == 1; });
      } catch (const Error& error) {
        EXPECT_TRUE(error.on_all_ranks());
        ends[rank] = static_cast<int>(error.code());
      }
      watched[rank].during = {};
    });
  };
  PipelineRange range{"", "", "", {{"first", true}, {"second", false}}};
  run_both(range);
  EXPECT_THAT(ends, ElementsAre(0, 0));
  EXPECT_THAT(sizes[0], ElementsAre(1, 2));
  EXPECT_THAT(sizes[1], ElementsAre(2));
  EXPECT_THAT(watched[1].ran, ElementsAre("second"));
  EXPECT_THAT(said_.str(), HasSubstr("first (rank 0 alone: --stage.first.gpus 1)"));
  range.alone.clear();  // it reruns nothing
  run_both(range);
  EXPECT_THAT(sizes[0], ElementsAre());
  range.alone["first"] = true;
  range.force = "first";
  watched[0].during = [](const StageContext&) { throw input_error("row 3 is cut"); };
  run_both(range);
  EXPECT_THAT(ends, ElementsAre(65, 65));
  // The rank that waits is asked to stop: the one that works hears of it.
  bool heard = false;
  watched[0].during = [&](const StageContext& c) {
    asked = true;
    for (int i = 0; i < 10'000 && !heard; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      heard = c.stop_requested();
    }
    throw Error(ExitCode::requeue, "stopped as asked");
  };
  run_both(range);
  EXPECT_TRUE(heard);
  EXPECT_THAT(ends, ElementsAre(75, 75));
}

TEST_F(LedgerTest, ASectionOfAStageThatIsNotThereIsRefused) {
  EXPECT_THAT(
      [&] {
        check_pipeline(pipeline(), {"", "", "", {{"third", false}}});
      },
      testing::ThrowsMessage<Error>(
          testing::HasSubstr("[stage.third]: no such stage; the stages are first, second")));
}

TEST_F(LedgerTest, ASignalStopsBeforeTheNextStageAndTheFinishedOneIsKept) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    fs::remove_all(run_);
    {
      const StopSignals signals;
      EXPECT_FALSE(StopSignals::requested());
      watched_.during = [&](const StageContext&) { std::raise(signal); };
      EXPECT_EQ(run(), 75);
      EXPECT_THAT(watched_.ran, ElementsAre("first"));
    }
    watched_.during = {};
    const StopSignals signals;
    EXPECT_EQ(run(), 0);
    EXPECT_THAT(watched_.ran, ElementsAre("second"));
  }
}

TEST_F(LedgerTest, CheckpointsOutliveAStoppedStageButNotAFinishedOne) {
  const StopSignals signals;
  watched_.during = [&](const StageContext& c) {
    if (c.name == "second") std::raise(SIGTERM);
    c.leave_together_if_asked();
  };
  EXPECT_EQ(run(), 75);
  EXPECT_THAT(watched_.ran, ElementsAre("first", "second"));
  EXPECT_FALSE(fs::exists(run_ / "checkpoints/first"));
  EXPECT_TRUE(fs::exists(run_ / "checkpoints/second" /
                         watched_.tasks.at("second").fingerprint.substr(0, 16) / "step.txt"));
  watched_.during = {};
  const StopSignals again;
  EXPECT_EQ(run(), 0);
  EXPECT_TRUE(watched_.checkpoint_was_there);
  EXPECT_FALSE(fs::exists(run_ / "checkpoints"));
  EXPECT_FALSE(fs::exists(run_ / "stages/02-second.partial"));
}

TEST_F(LedgerTest, ACheckpointBelongsToTheOptionsButNotToTheFreeOnes) {
  EXPECT_EQ(run(), 0);
  const auto before = watched_.tasks;
  EXPECT_THAT(before.at("second").options, testing::Each("train.rate = 1"));
  EXPECT_NE(before.at("first").fingerprint, before.at("second").fingerprint);
  options_.micro_batch = 4;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(watched_.ran, ElementsAre()) << "finished all the same";
  options_.rate = 2;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(watched_.ran, ElementsAre("first", "second"));
  EXPECT_NE(watched_.tasks.at("first").fingerprint, before.at("first").fingerprint);
}

TEST_F(LedgerTest, OtherOptionsStartAfreshAndTheOldOnesFindTheirCheckpointsAgain) {
  watched_.during = [&](const StageContext& c) {
    if (c.name == "second") throw Error(ExitCode::requeue, "stopped", true);
  };
  EXPECT_EQ(run(), 75);
  options_.rate = 2;
  EXPECT_EQ(run(), 75);
  EXPECT_FALSE(watched_.checkpoint_was_there);
  options_.rate = 1;
  EXPECT_EQ(run(), 75);
  EXPECT_TRUE(watched_.checkpoint_was_there);
  options_.rate = 2;
  watched_.during = {};
  EXPECT_EQ(run(), 0);
  EXPECT_TRUE(watched_.checkpoint_was_there);
  options_.rate = 1;
  EXPECT_EQ(run(), 0);
  EXPECT_TRUE(watched_.checkpoint_was_there)
      << "a run of other options that ended took nothing away";
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
