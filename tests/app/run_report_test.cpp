// Pages of run folders that are made by hand.
#include "gpuhpc/app/run_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/eval/results.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
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
        R"({"order": ["encoding", "refinement", "augmentation", "hierarchy", "training", "inference"], "stages": {"encoding": {"fingerprint": "f", "seconds": 2.5, "memory": 7000000, "gpu_memory": 3000, "outputs": {}}}})");
    write_text_file(
        checkpoints / "metrics.jsonl",
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
  static Json losses(const Json& report) {
    return report.at("curves").at(0).at("series").at(0).at("y");
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
  const Json report = make_run_report(run("a"));
  EXPECT_EQ(report.at("title"), "a");
  const Json& stages = report.at("runs").at(0).at("stages");
  EXPECT_EQ(
      stages,
      Json::parse(
          R"([{"name": "encoding", "seconds": 2.5, "reused": false, "memory": 7000000, "gpu_memory": 3000}])"));
  ASSERT_EQ(report.at("curves").size(), 2u);
  EXPECT_EQ(losses(report), Json::array({2, 1}));
  EXPECT_EQ(report.at("warnings"),
            Json::array({"The run is not finished: refinement, augmentation, hierarchy, training, "
                         "inference are missing. The same command continues it.",
                         "The training curves go as far as step 2."}));
  EXPECT_FALSE(report.contains("evaluation"));
}

// As a job without classes leaves it.
TEST_F(RunReport, MetricsAndSamplesOfAnyJobAreShown) {
  const fs::path folder = run("a");
  write_text_file(folder / "metrics.json",
                  R"({"perplexity": 8.5, "perplexity_low": 8, "perplexity_high": 9.25,
                      "spearman": null, "corpus": "text", "too_low": 3})");
  const std::string samples = R"([{"title": "Masked", "columns": ["text", "loss"],
                                   "rows": [["a </script> b", 1.5], ["c", null]]}])";
  write_text_file(folder / "samples.json", samples);
  const Json report = make_run_report(folder), &metrics = report.at("runs").at(0).at("metrics");
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[0].at("name"), "perplexity");
  EXPECT_EQ(metrics[0].at("value"), 8.5);
  EXPECT_EQ(metrics[0].at("low"), 8);
  EXPECT_EQ(metrics[0].at("high"), 9.25);
  EXPECT_TRUE(metrics[1].at("value").is_null());
  EXPECT_EQ(metrics[2].at("title"), "too low");
  EXPECT_EQ(report.at("samples"), Json::parse(samples));
  for (const char* broken : {R"({"title": "x"})", R"([{"title": "x", "columns": [], "rows": 1}])",
                             R"([{"title": "x", "columns": ["a"], "rows": [["b", "c"]]}])",
                             R"([{"title": "x", "columns": ["a"], "rows": [[{"b": 1}]]}])"}) {
    write_text_file(folder / "samples.json", broken);
    EXPECT_THAT(problem([&] { make_run_report(folder); }),
                HasSubstr("65 " + (folder / "samples.json").string() + ": not samples"))
        << broken;
  }
}

TEST_F(RunReport, ReliabilityIsThatOfScoresThatAreProbabilities) {
  const fs::path folder = run("a"), data = folder / "model/gpuhpc";
  create_folder(data);
  write_text_file(data / "labels.txt", "0\tgame\n1\tchess\n");
  write_text_file(data / "label_hierarchy.txt", "0\t1\n");
  const Taxonomy taxonomy = Taxonomy::load(data / "labels.txt", data / "label_hierarchy.txt");
  // Gold of the first document is game, of the second chess.
  const auto report_of = [&](const std::string& first, const std::string& second) {
    const fs::path lines = folder / "predictions.jsonl";
    write_text_file(lines, R"({"id": "a", "labels": )" + first + "}\n" +
                               R"({"id": "b", "labels": )" + second + "}\n");
    const Predictions predictions = read_predictions(lines, taxonomy);
    const LabelledDocuments documents{.ids = predictions.ids,
                                      .gold = {{0}, {1}},
                                      .predicted = predictions.labels,
                                      .scores = predictions.scores};
    write_evaluation(folder / "evaluation.json",
                     evaluate_in_detail(taxonomy, documents, {.bootstrap_samples = 0}), taxonomy);
    return make_run_report(folder);
  };
  const std::string other = R"(["game", "chess"], "scores": {"game": 0.875, "chess": 0.125})";
  const Json all = report_of(R"(["game"], "scores": {"game": 0.75, "chess": 0.25})", other);
  EXPECT_EQ(all.at("reliability").at("series"), Json::parse(R"([
      {"name": "best class", "x": [0.75, 0.875], "y": [1.0, 0.0]},
      {"name": "predicted classes", "x": [0.125, 0.75, 0.875], "y": [1.0, 1.0, 0.0]},
      {"name": "score = share", "x": [0, 1], "y": [0, 1]}])"));
  const Json& risk = all.at("risk").at("series").at(0);
  ASSERT_EQ(risk.at("y").size(), 20u);
  EXPECT_EQ(risk.at("y").at(0), 1);  // the second is the surest, and wrong
  EXPECT_EQ(risk.at("y").at(19), .5);
  EXPECT_EQ(risk.at("x").at(19), 1);
  const Json some = report_of(R"(["chess"], "scores": {"game": 1.5, "chess": 0.25})", other);
  EXPECT_EQ(some.at("reliability").at("series").size(), 2u);
  EXPECT_EQ(some.at("reliability").at("series").at(0).at("name"), "predicted classes");
  const Json none = report_of(R"(["game"], "scores": {"game": 1.5, "chess": 0.25})", other);
  EXPECT_FALSE(none.contains("reliability"));
  EXPECT_TRUE(none.contains("risk"));
}

TEST_F(RunReport, TheNewestCheckpointFolderCountsUntilTheStageHasEnded) {
  const fs::path folder = run("a"), newer = folder / "checkpoints/training/4567/metrics.jsonl",
                 stage = folder / "stages/05-training/metrics.jsonl";
  create_folder(newer.parent_path());
  write_text_file(newer, "{\"step\": 1, \"loss\": 7}\n");
  fs::last_write_time(newer,
                      fs::last_write_time(folder / "checkpoints/training/0123/metrics.jsonl") +
                          std::chrono::seconds(1));
  EXPECT_EQ(losses(make_run_report(folder)), Json::array({7}));
  create_folder(stage.parent_path());
  write_text_file(stage, "{\"step\": 1, \"loss\": 8}\n");
  EXPECT_EQ(losses(make_run_report(folder)), Json::array({8}));
}

TEST_F(RunReport, EveryTrainingOfTheMethodHasItsCurves) {
  const fs::path folder = run("a"), first = folder / "stages/06-classifier",
                 second = folder / "checkpoints/self-training/0123";
  fs::remove_all(folder / "checkpoints");
  create_folder(first);
  create_folder(second);
  write_text_file(
      folder / "ledger.json",
      R"({"order": ["encoding", "posterior", "pair-model", "similarity", "cores", "classifier", "self-training", "inference"], "stages": {"encoding": {"fingerprint": "f", "seconds": 2.5, "outputs": {}}}})");
  write_text_file(first / "metrics.jsonl", "{\"step\": 1, \"loss\": 3}\n");
  write_text_file(first / "ranks.jsonl", rank(0, 10));
  write_text_file(second / "metrics.jsonl", "{\"step\": 1, \"loss\": 2}\n");
  const Json report = make_run_report(folder);
  ASSERT_EQ(report.at("curves").size(), 2u);
  EXPECT_EQ(report.at("curves")[0].at("title"), "loss");
  EXPECT_EQ(losses(report), Json::array({3}));
  EXPECT_EQ(report.at("curves")[1].at("title"), "self-training: loss");
  EXPECT_EQ(report.at("runs")[0].at("ranks").size(), 1u);
  EXPECT_EQ(report.at("warnings"),
            Json::array({"The run is not finished: posterior, pair-model, similarity, cores, "
                         "classifier, self-training, inference are missing. The same command "
                         "continues it."}));
}

TEST_F(RunReport, ASlowRankIsMarked) {
  const fs::path folder = run("a");
  write_text_file(folder / "checkpoints/training/0123/ranks.jsonl",
                  rank(0, 10) + rank(1, 15) + rank(2, 10));
  const Json ranks = make_run_report(folder).at("runs").at(0).at("ranks");
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[0].at("times_slower"), 1);
  EXPECT_DOUBLE_EQ(ranks[1].at("times_slower"), 1.5);
}

TEST_F(RunReport, SeveralRunsShowWhatDiffers) {
  const fs::path first = run("a/x", "[train]\nseed = 1\nbatch = 8\n[run]\ndir = a\n"),
                 second = run("b/x", "[train]\nseed = 2\nbatch = 8\n# empty = \n[run]\ndir = b\n"),
                 third = run("c");
  fs::remove_all(third / "checkpoints");
  const Json report = compare_runs({first, second, third}), &runs = report.at("runs");
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].at("name"), first.string()) << "the last part alone would not tell them apart";
  EXPECT_EQ(runs[2].at("name"), "c");
  EXPECT_EQ(report.at("differences"),
            Json::parse(R"([{"option": "train.batch", "values": ["8", "8", ""]},
                            {"option": "train.seed", "values": ["1", "2", "1"]}])"));
  ASSERT_FALSE(report.at("curves").empty());
  const Json& series = report.at("curves")[0].at("series");
  ASSERT_EQ(series.size(), 3u);
  EXPECT_TRUE(series[2].at("x").empty()) << "the third has not trained";
  EXPECT_THAT(report.at("warnings").back().get<std::string>(),
              HasSubstr("c: The run is not finished"));
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
      R"({"order": ["encoding", "refinement", "augmentation", "hierarchy", "training", "inference"], "stages": {"encoding": {"fingerprint": "f", "seconds": 1e300, "outputs": {}}}})");
  expect(folder, "stage encoding took 1e+300 seconds");
  write_text_file(folder / "ledger.json", R"({"order": [], "stages": {}})");
  write_text_file(folder / "run.json", "{\"facts\": [[1, 2]]}");
  expect(folder, "65 " + (folder / "run.json").string() + ": gpuhpc did not write this file");
}

}  // namespace
}  // namespace gpuhpc
