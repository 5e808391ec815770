#include "gpuhpc/report/training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Training : public testing::Test {
 protected:
  void TearDown() override { fs::remove(path_); }
  TrainingLines lines(const std::string& text) {
    write(text);
    return read_training_lines(path_);
  }
  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  template <typename Read>
  std::string problem(const std::string& text, Read read) {
    write(text);
    try {
      read(path_);
    } catch (const Error& e) {
      return std::to_string(static_cast<int>(e.code())) + " " + e.what();
    }
    return "";
  }
  static std::vector<std::string> titles(const Json& curves) {
    std::vector<std::string> list;
    for (const Json& curve : curves) list.push_back(curve.at("title"));
    return list;
  }
  fs::path path_ =
      fs::temp_directory_path() / ("gpuhpc-training-" + std::to_string(::getpid()) + ".jsonl");
};

const std::string kOld =
    R"({"step":1,"loss":2.0,"gradient_norm":1,"learning_rate_multiplier":0.5,"tokens":100,"tokens_per_second":50,"compute_seconds":1,"exposed_communication_seconds":0.5,"update_seconds":0.5}
{"step":2,"loss":null,"gradient_norm":null,"learning_rate_multiplier":1,"tokens":100,"tokens_per_second":100,"compute_seconds":0.5,"exposed_communication_seconds":0.25,"update_seconds":0.25}
{"step":2,"epoch":0,"validation_loss":1.5}
)";
const std::string kNew =
    R"({"step":1,"loss":2.0,"data_seconds":0.125,"compute_seconds":0.5,"exposed_communication_seconds":0.125,"update_seconds":0.125,"step_seconds":1,"learning_rates":{"encoder":0.1,"encoder.plain":0.1,"head":0.2},"host_memory":1073741824}
{"step":2,"loss":1.0,"data_seconds":0.125,"compute_seconds":0.5,"exposed_communication_seconds":0.125,"update_seconds":0.125,"step_seconds":2,"learning_rates":{"encoder":0.05,"encoder.plain":0.05,"head":0.1},"host_memory":2147483648}
)";

TEST_F(Training, OldLinesLeaveOutWhatTheyDoNotHave) {
  const TrainingLines old = lines(kOld);
  const auto curves = training_curves(old);
  EXPECT_THAT(titles(curves), ElementsAre("loss", "learning rate (share of the peak)",
                                          "gradient norm, before clipping", "tokens per second"));
  const Json& series = curves.at(0).at("series");
  ASSERT_EQ(series.size(), 2u);
  EXPECT_EQ(series[0].at("y"), Json::array({2, nullptr})) << "a skipped step";
  EXPECT_EQ(series[0].at("not_finite"), 1);
  EXPECT_EQ(series[1].at("x"), Json::array({2}));
  EXPECT_EQ(series[1].at("y"), Json::array({1.5}));
  const Json split = step_split(old);
  ASSERT_EQ(split.at("parts").size(), 3u);
  EXPECT_EQ(split.at("parts")[0].at("name"), "compute");
}

TEST_F(Training, NewLinesHaveRatesMemoryAndTheRestOfTheStep) {
  const TrainingLines lines_now = lines(kNew);
  const Json curves = training_curves(lines_now);
  ASSERT_THAT(titles(curves), ElementsAre("loss", "learning rates", "memory in GiB"));
  const Json& rates = curves[1].at("series");
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0].at("name"), "encoder, encoder.plain") << "one line for both";
  EXPECT_EQ(rates[1].at("y"), Json::array({.2, .1}));
  EXPECT_EQ(curves[2].at("series")[0].at("y"), Json::array({1, 2}));
  const Json split = step_split(lines_now);
  ASSERT_EQ(split.at("parts").size(), 5u);
  EXPECT_EQ(split.at("parts")[4].at("name"), "other");
  EXPECT_EQ(split.at("parts")[4].at("bars"), Json::array({.125, 1.125}));
  EXPECT_EQ(split.at("parts")[4].at("seconds"), 1.25);
}

TEST_F(Training, LongCurvesAreThinnedAndKeepTheirEnd) {
  TrainingLines run;
  for (int step = 1; step <= 100'000; ++step) {
    run.steps.push_back(step);
    run.columns["loss"].push_back(step % 1000 == 7 ? NAN : step);
  }
  const Json curves = training_curves(run);
  const Json& series = curves.at(0).at("series").at(0);
  EXPECT_LE(series.at("x").size(), 402u);
  EXPECT_EQ(series.at("x").front(), 1);
  EXPECT_EQ(series.at("y").back(), 100'000);
  EXPECT_EQ(series.at("not_finite"), 100) << "of all, not of those that were kept";
}

TEST_F(Training, StepTimesAreMeansOfNeighbours) {
  TrainingLines run;
  for (int step = 1; step <= 600; ++step) {
    run.steps.push_back(step);
    run.columns["compute_seconds"].push_back(step % 2 == 0 ? 4 : 2);
    run.columns["exposed_communication_seconds"].push_back(step == 20 ? NAN : 1);
  }
  const Json split = step_split(run);
  EXPECT_EQ(split.at("count"), 600);
  ASSERT_EQ(split.at("first").size(), 60u);
  EXPECT_EQ(split.at("first")[1], 11);
  EXPECT_EQ(split.at("last")[1], 20);
  EXPECT_EQ(split.at("parts")[0].at("bars")[1], 3);
  EXPECT_EQ(split.at("parts")[1].at("bars")[1], .9);
  EXPECT_EQ(split.at("parts")[1].at("seconds"), 599);
  run.columns.clear();
  EXPECT_TRUE(step_split(run).is_null());
}

TEST_F(Training, RunsAreComparedOverStepsAndSeconds) {
  std::vector<TrainingLines> runs = {lines(kOld), lines(kNew)};
  runs[0].run = "old", runs[1].run = "new";
  const Json curves = compare_curves(runs);
  ASSERT_THAT(titles(curves), ElementsAre("training loss", "training loss over time",
                                          "validation loss", "learning rate (share of the peak)",
                                          "gradient norm, before clipping", "tokens per second"));
  EXPECT_EQ(curves[1].at("x_label"), "seconds of training");
  const Json& timed = curves[1].at("series");
  EXPECT_EQ(timed[0].at("x"), Json::array({2, 3})) << "tokens over their rate";
  EXPECT_EQ(timed[1].at("x"), Json::array({1, 3})) << "step_seconds";
  EXPECT_EQ(timed[1].at("name"), "new");
  EXPECT_TRUE(curves[2].at("series")[1].at("x").empty()) << "it was not validated";
}

// As train-embedding writes them: of several data sets, and a figure that is not there at first.
TEST_F(Training, ValidationsShowTheirNamedFigures) {
  const TrainingLines found = lines(R"({"step":1,"loss":2.0}
{"step":1,"epoch":0,"validation_loss":1.5,"validation_loss_nli":2.0,"validation_loss_sts":1.0}
{"step":2,"loss":1.0}
{"step":2,"epoch":0,"validation_loss":1.25,"validation_loss_nli":1.75,"validation_loss_sts":null,"validation_ndcg_at_10":0.5}
{"step":3,"epoch":0,"validation_loss":1.0,"validation_ndcg_at_10":0.75}
)");
  const Json curves = training_curves(found);
  ASSERT_THAT(titles(curves),
              ElementsAre("loss", "validation loss of each data set", "validation ndcg_at_10"));
  EXPECT_EQ(curves[0].at("series")[1].at("y"), Json::array({1.5, 1.25, 1}));
  const Json& losses = curves[1].at("series");
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0].at("name"), "nli");
  EXPECT_EQ(losses[0].at("x"), Json::array({1, 2}));
  EXPECT_EQ(losses[0].at("y"), Json::array({2, 1.75}));
  EXPECT_EQ(losses[1].at("y"), Json::array({1, nullptr}));
  EXPECT_EQ(losses[1].at("not_finite"), 1);
  EXPECT_EQ(curves[2].at("series")[0].at("x"), Json::array({2, 3}));
  EXPECT_EQ(curves[2].at("series")[0].at("y"), Json::array({.5, .75}));
  EXPECT_THAT(problem(R"({"step":1,"validation_loss":1,"validation_map":"x"})"
                      "\n{\"step\":2}\n",
                      read_training_lines),
              HasSubstr(":1: `validation_map` is not a number"));
}

TEST_F(Training, ComparedLinesAreRunningMeans) {
  TrainingLines run;
  for (int step = 1; step <= 40; ++step)
    run.steps.push_back(step), run.columns["loss"].push_back(step % 2 == 0 ? 3 : 1);
  const Json means = compare_curves({run, run}).at(0).at("series").at(1).at("y");
  EXPECT_EQ(means.at(0), 1);
  EXPECT_EQ(std::vector<double>(means.begin() + 1, means.end()), std::vector<double>(39, 2.0));
}

TEST_F(Training, BrokenLinesAreNamedButACutLastOneIsPassedOver) {
  EXPECT_THAT(lines(kOld + R"({"step":3,"lo)").steps, ElementsAre(1, 2));
  EXPECT_THAT(lines("").steps, IsEmpty());
  const auto problem_of = [&](const std::string& text) {
    return problem(text, read_training_lines);
  };
  EXPECT_THAT(problem_of("{\"step\":1}\n{\"step\":2,\n{\"step\":3}\n"),
              testing::StartsWith("65 " + path_.string() + ":2:"));
  EXPECT_THAT(problem_of("{\"step\":1}\n{\"step\":2,\"loss\":\"low\"}\n"),
              HasSubstr(":2: `loss` is not a number"));
  EXPECT_THAT(problem_of("{\"loss\":1}\n"), HasSubstr(":1: there is no `step`"));
  EXPECT_THAT(problem_of("{\"step\":null}\n"), HasSubstr(":1: `step` is not a number"));
  EXPECT_THAT(problem_of("[1]\n{\"step\":2}\n"), HasSubstr(":1: this is not a JSON object"));
  EXPECT_THAT(problem_of("{\"step\":1,\"learning_rates\":[1]}\n"),
              HasSubstr("`learning_rates` is not an object"));
}

TEST_F(Training, RanksAreReadAndBrokenOnesNamed) {
  const std::string rank =
      R"({"rank":1,"host":"node2","device":"cpu","steps":10,"tokens":1000,"data_seconds":1,"compute_seconds":2,"exposed_communication_seconds":3,"update_seconds":4,"other_seconds":5,"wall_seconds":15,"peak_memory":1048576})";
  write(rank + "\n");
  const auto ranks = read_ranks(path_);
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(ranks[0], Json::parse(rank)) << "as it is";
  EXPECT_THAT(problem(rank + "\n{\"rank\":1", read_ranks),
              testing::StartsWith("65 " + path_.string() + ":2:"));
  EXPECT_THAT(problem("{\"rank\":\"x\",\"host\":\"\",\"device\":\"\"}\n", read_ranks),
              HasSubstr(":1: `rank` is not a number"));
  EXPECT_THAT(problem("{\"rank\":1}\n", read_ranks), HasSubstr("there is no text `host`"));
}

}  // namespace
}  // namespace gpuhpc
