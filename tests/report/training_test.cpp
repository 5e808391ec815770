#include "gpuhpc/report/training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pointwise;

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
  static std::vector<std::string> titles(const std::vector<ReportCurve>& curves) {
    std::vector<std::string> list;
    for (const ReportCurve& curve : curves) list.push_back(curve.title);
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
                                          "gradient norm, before clipping", "tokens a second"));
  ASSERT_EQ(curves[0].series.size(), 2u);
  EXPECT_EQ(curves[0].series[0].y[0], 2);
  EXPECT_TRUE(std::isnan(curves[0].series[0].y[1])) << "a skipped step";
  EXPECT_THAT(curves[0].series[1].x, ElementsAre(2));
  EXPECT_THAT(curves[0].series[1].y, ElementsAre(1.5));
  const ReportSplit split = step_split(old);
  ASSERT_EQ(split.parts.size(), 3u);
  EXPECT_EQ(split.parts[0].name, "compute");
}

TEST_F(Training, NewLinesHaveRatesMemoryAndTheRestOfTheStep) {
  const TrainingLines lines_now = lines(kNew);
  const auto curves = training_curves(lines_now);
  EXPECT_THAT(titles(curves), ElementsAre("loss", "learning rates", "memory in GiB"));
  ASSERT_EQ(curves[1].series.size(), 2u);
  EXPECT_EQ(curves[1].series[0].name, "encoder, encoder.plain") << "one line for both";
  EXPECT_THAT(curves[1].series[1].y, ElementsAre(.2, .1));
  EXPECT_THAT(curves[2].series[0].y, ElementsAre(1, 2));
  const ReportSplit split = step_split(lines_now);
  ASSERT_EQ(split.parts.size(), 5u);
  EXPECT_EQ(split.parts[4].name, "other");
  EXPECT_THAT(split.parts[4].seconds, ElementsAre(.125, 1.125));
}

TEST_F(Training, RunsAreComparedOverStepsAndSeconds) {
  std::vector<TrainingLines> runs = {lines(kOld), lines(kNew)};
  runs[0].run = "old", runs[1].run = "new";
  const auto curves = compare_curves(runs);
  ASSERT_THAT(titles(curves), ElementsAre("training loss", "training loss over time",
                                          "validation loss", "learning rate (share of the peak)",
                                          "gradient norm, before clipping", "tokens a second"));
  EXPECT_EQ(curves[1].x_label, "seconds of training");
  EXPECT_THAT(curves[1].series[0].x, ElementsAre(2, 3)) << "tokens over their rate";
  EXPECT_THAT(curves[1].series[1].x, ElementsAre(1, 3)) << "step_seconds";
  EXPECT_EQ(curves[1].series[1].name, "new");
  EXPECT_TRUE(curves[2].series[1].x.empty()) << "it was not validated";
}

TEST_F(Training, ComparedLinesAreRunningMeans) {
  TrainingLines run;
  for (int step = 1; step <= 40; ++step)
    run.steps.push_back(step), run.columns["loss"].push_back(step % 2 == 0 ? 3 : 1);
  const auto curves = compare_curves({run, run});
  EXPECT_EQ(curves.at(0).series.at(1).y.at(0), 1);
  EXPECT_THAT(std::vector<double>(curves[0].series[1].y.begin() + 1, curves[0].series[1].y.end()),
              testing::Each(2));
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
  EXPECT_EQ(ranks[0].host, "node2");
  EXPECT_EQ(ranks[0].peak_memory, 1048576);
  EXPECT_EQ(ranks[0].wall, 15);
  EXPECT_THAT(problem(rank + "\n{\"rank\":1", read_ranks),
              testing::StartsWith("65 " + path_.string() + ":2:"));
  EXPECT_THAT(problem("{\"rank\":1e300,\"host\":\"\",\"device\":\"\"}\n", read_ranks),
              HasSubstr(":1: `rank` is not a whole number"));
  EXPECT_THAT(problem("{\"rank\":1}\n", read_ranks), HasSubstr("there is no text `host`"));
}

TEST_F(Training, SharesAddUpToAHundred) {
  for (const std::vector<double>& amounts :
       {std::vector<double>{1, 1, 1}, {1, 2, 3, 4, 5, 6}, {1e-9, 1, 7, 1e3}, {5}}) {
    const auto shares = percent_shares(amounts);
    EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 100, 1e-9);
  }
  EXPECT_THAT(percent_shares({1, 1, 1}),
              Pointwise(DoubleNear(1e-9), std::vector<double>{33.4, 33.3, 33.3}));
  EXPECT_THAT(percent_shares({0, 0}), ElementsAre(0, 0));
}

}  // namespace
}  // namespace gpuhpc
