// Pages of run folders that are made by hand.
#include "gpuhpc/app/run_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class RunReport : public testing::Test {
 protected:
  ~RunReport() override { fs::remove_all(root_); }
  // A run that stopped in its training.
  fs::path run(const std::string& name, const std::string& config = "[train]\nseed = 1\n") {
    const fs::path folder = root_ / name, checkpoints = folder / "checkpoints/training/0123";
    create_folder(checkpoints);
    write_text_file(folder / "config.ini", config);
    write_text_file(
        folder / "ledger.json",
        R"({"stages": {"encoding": {"fingerprint": "f", "seconds": 2.5, "outputs": {}}}})");
    write_text_file(checkpoints / "metrics.jsonl",
                    "{\"step\": 1, \"loss\": 2, \"learning_rate_multiplier\": 1}\n{\"step\": 2, \"loss\": 1, "
                    "\"learning_rate_multiplier\": 1}\n");
    return folder;
  }
  static std::string rank(int number, double compute) {
    return fmt::format(
        R"({{"rank":{},"host":"h","device":"cpu","steps":2,"tokens":100,"data_seconds":0,"compute_seconds":{},"exposed_communication_seconds":0,"update_seconds":0,"other_seconds":0,"wall_seconds":9,"peak_memory":1}})"
        "\n",
        number, compute);
  }
  template <typename Make>
  static std::string problem(Make make) {
    try {
      make();
    } catch (const Error& e) {
      return std::to_string(static_cast<int>(e.code())) + " " + e.what();
    }
    return "";
  }
  fs::path root_ = fs::temp_directory_path() / ("gpuhpc-run-report-" + std::to_string(::getpid()));
};

TEST_F(RunReport, AnUnfinishedRunHasItsCurvesAndSaysWhatIsMissing) {
  const ReportModel model = make_run_report(run("a"));
  EXPECT_EQ(model.title, "a");
  ASSERT_EQ(model.stages.size(), 1u);
  EXPECT_EQ(model.stages[0].seconds, 2.5);
  ASSERT_EQ(model.curves.size(), 2u);
  EXPECT_THAT(model.curves[0].series[0].y, ElementsAre(2, 1));
  EXPECT_THAT(model.warnings,
              ElementsAre("The run is not finished: refinement, augmentation, hierarchy, training, "
                          "inference are missing. The same command goes on with it.",
                          "The training curves go as far as step 2."));
}

TEST_F(RunReport, TheNewestCheckpointFolderCountsUntilTheStageHasEnded) {
  const fs::path folder = run("a"), newer = folder / "checkpoints/training/4567/metrics.jsonl",
                 stage = folder / "stages/05-training/metrics.jsonl";
  create_folder(newer.parent_path());
  write_text_file(newer, "{\"step\": 1, \"loss\": 7}\n");
  fs::last_write_time(newer,
                      fs::last_write_time(folder / "checkpoints/training/0123/metrics.jsonl") +
                          std::chrono::seconds(1));
  EXPECT_THAT(make_run_report(folder).curves[0].series[0].y, ElementsAre(7));
  create_folder(stage.parent_path());
  write_text_file(stage, "{\"step\": 1, \"loss\": 8}\n");
  EXPECT_THAT(make_run_report(folder).curves[0].series[0].y, ElementsAre(8));
}

TEST_F(RunReport, EveryTrainingOfTheMethodHasItsCurves) {
  const fs::path folder =
                     run("a", "[pipeline]\nmethod = taxoclass\n[taxoclass]\nsimilarity = pair\n"),
                 first = folder / "stages/06-classifier",
                 second = folder / "checkpoints/self-training/0123";
  fs::remove_all(folder / "checkpoints");
  create_folder(first);
  create_folder(second);
  write_text_file(first / "metrics.jsonl", "{\"step\": 1, \"loss\": 3}\n");
  write_text_file(first / "ranks.jsonl", rank(0, 10));
  write_text_file(second / "metrics.jsonl", "{\"step\": 1, \"loss\": 2}\n");
  const ReportModel model = make_run_report(folder);
  ASSERT_EQ(model.curves.size(), 2u);
  EXPECT_EQ(model.curves[0].title, "loss");
  EXPECT_THAT(model.curves[0].series[0].y, ElementsAre(3));
  EXPECT_EQ(model.curves[1].title, "self-training: loss");
  EXPECT_EQ(model.ranks.size(), 1u);
  EXPECT_THAT(
      model.warnings,
      ElementsAre("The run is not finished: posterior, pair-model, similarity, cores, classifier, "
                  "self-training, inference are missing. The same command goes on with it."));
}

TEST_F(RunReport, ASlowRankIsMarked) {
  const fs::path folder = run("a");
  write_text_file(folder / "checkpoints/training/0123/ranks.jsonl",
                  rank(0, 10) + rank(1, 15) + rank(2, 10));
  const auto ranks = make_run_report(folder).ranks;
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[0].times_slower, 1);
  EXPECT_DOUBLE_EQ(ranks[1].times_slower, 1.5);
}

TEST_F(RunReport, SeveralRunsShowWhatDiffers) {
  const fs::path first = run("a/x", "[train]\nseed = 1\nbatch = 8\n[run]\ndir = a\n"),
                 second = run("b/x", "[train]\nseed = 2\nbatch = 8\n# empty = \n[run]\ndir = b\n"),
                 third = run("c");
  fs::remove_all(third / "checkpoints");
  const ReportModel model = compare_runs({first, second, third});
  ASSERT_EQ(model.runs.size(), 3u);
  EXPECT_EQ(model.runs[0].name, first.string()) << "the last part alone would not tell them apart";
  EXPECT_EQ(model.runs[2].name, "c");
  ASSERT_EQ(model.differences.size(), 2u);
  EXPECT_EQ(model.differences[0].option, "train.batch");
  EXPECT_THAT(model.differences[0].values, ElementsAre("8", "8", ""));
  EXPECT_EQ(model.differences[1].option, "train.seed");
  ASSERT_FALSE(model.curves.empty());
  ASSERT_EQ(model.curves[0].series.size(), 3u);
  EXPECT_TRUE(model.curves[0].series[2].x.empty()) << "the third has not trained";
  EXPECT_THAT(model.warnings.back(), HasSubstr("c: The run is not finished"));
}

TEST_F(RunReport, BrokenFoldersAreNamed) {
  const auto expect = [&](const fs::path& folder, const std::string& says) {
    EXPECT_THAT(problem([&] { make_run_report(folder); }), HasSubstr(says));
  };
  expect(root_ / "none", "65 " + (root_ / "none").string() + ": there is no such folder");
  const fs::path folder = run("a");
  write_text_file(folder / "config.ini", "[train]\nseed = 1\nwhat is this\n");
  expect(folder, "65 " + (folder / "config.ini").string() + ":3: neither");
  write_text_file(folder / "config.ini", "[eval]\nseed = x\n");
  expect(folder, "65 " + (folder / "config.ini").string() + ": ");
  write_text_file(folder / "config.ini", "[option]\nof-an-older-program = 1\n");
  EXPECT_EQ(problem([&] { make_run_report(folder); }), "");
  write_text_file(
      folder / "ledger.json",
      R"({"stages": {"encoding": {"fingerprint": "f", "seconds": 1e300, "outputs": {}}}})");
  expect(folder, "stage encoding took 1e+300 seconds");
  write_text_file(folder / "ledger.json", R"({"stages": {}})");
  write_text_file(folder / "run.json", "{\"facts\": [[1, 2]]}");
  expect(folder, "65 " + (folder / "run.json").string() + ": not a file of ours");
}

}  // namespace
}  // namespace gpuhpc
