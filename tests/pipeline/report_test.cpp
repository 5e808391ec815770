// The page of a run folder and its data, made from the folder alone.
#include "pipeline.hpp"

namespace gpuhpc_test {
namespace {

class Report : public Pipeline {
 protected:
  static Result report(const std::string& runs, const fs::path& page) {
    return gpuhpc("report --report.runs " + runs + " --report.output " + page.string());
  }
  static Json data(fs::path page) { return Json::parse(read(page.replace_extension(".json"))); }
};

TEST_F(Report, IsTheOneThatRunWrote) {
  const fs::path run = root_ / "reference", page = root_ / "again.html";
  ASSERT_EQ(report(run.string(), page).code, 0);
  EXPECT_TRUE(read(page) == read(run / "report.html"));
  const std::string text = read(root_ / "again.json");
  EXPECT_TRUE(text == read(run / "report.json"));
  EXPECT_THAT(read(page), HasSubstr(">" + text.substr(0, text.size() - 1) + "<"));
  const Json report = data(page), figures = metrics(run), &first = report.at("runs").at(0);
  ASSERT_GT(first.at("metrics").size(), 10u);
  for (const Json& metric : first.at("metrics")) {
    const std::string name = metric.at("name");
    EXPECT_EQ(metric.at("value"), figures.at(name));
    EXPECT_EQ(metric.at("low"), figures.at(name + "_low"));
    EXPECT_EQ(metric.at("high"), figures.at(name + "_high"));
  }
  EXPECT_EQ(first.at("stages").size(), kStages.size());
  EXPECT_EQ(first.at("ranks").size(), 1u);
  EXPECT_EQ(first.at("steps").at("count"), training_losses(run).size());
  EXPECT_EQ(report.at("curves").at(0).at("series").at(0).at("y"), Json(training_losses(run)));
  EXPECT_EQ(report.at("classes").size(), 236u);
  EXPECT_EQ(report.at("documents"), 100);
  for (const Json& example : report.at("examples")) EXPECT_FALSE(example.at("text").empty());
}

TEST_F(Report, OfAStoppedRunShowsWhatIsThere) {
  const fs::path run = root_ / "stopped", page = root_ / "stopped.html";
  ASSERT_EQ(gpuhpc(arguments(run) + " --pipeline.to hierarchy").code, 0);
  const Result early = report(run.string(), page);
  ASSERT_EQ(early.code, 0) << early.output;
  EXPECT_THAT(early.output,
              HasSubstr("The run is not finished: training, test-encoding, inference are missing"));
  EXPECT_TRUE(data(page).at("curves").empty());
  // As a kill in the middle of the training leaves it: the last line is cut.
  const fs::path lines = run / "checkpoints/training/0123456789abcdef/metrics.jsonl";
  fs::create_directories(lines.parent_path());
  std::istringstream whole(read(root_ / "reference/metrics.jsonl"));
  std::ofstream cut(lines);
  std::string line;
  for (int step = 1; step <= 3 && std::getline(whole, line); ++step) cut << line << "\n";
  cut << line.substr(0, line.size() / 2) << std::flush;
  const Result later = report(run.string(), page);
  ASSERT_EQ(later.code, 0) << later.output;
  EXPECT_THAT(later.output, HasSubstr("The training curves go as far as step 3."));
  EXPECT_EQ(data(page).at("curves").at(0).at("series").at(0).at("x").size(), 3u);
  cut << "\n{\"step\": 5}\n" << std::flush;
  const Result broken = report(run.string(), page);
  EXPECT_EQ(broken.code, 65);
  EXPECT_THAT(broken.output, HasSubstr(lines.string() + ":4:"));
}

TEST_F(Report, OfTwoRunsStandsSideBySide) {
  const fs::path other = copied("other"), page = root_ / "compare.html";
  ASSERT_EQ(gpuhpc(arguments(other) + " --train.epochs 2").code, 0);
  const Result result = report((root_ / "reference").string() + "," + other.string(), page);
  ASSERT_EQ(result.code, 0) << result.output;
  const Json both = data(page);
  ASSERT_EQ(both.at("runs").size(), 2u);
  for (const Json& run : both.at("runs")) {
    EXPECT_FALSE(run.at("metrics").empty());
    EXPECT_EQ(run.at("stages").size(), kStages.size());
  }
  EXPECT_NE(both.at("differences").dump().find("train.epochs"), std::string::npos);
  EXPECT_EQ(both.at("curves").at(1).at("x_label"), "seconds of training");
}

TEST_F(Report, OfWhatIsNoRunEndsWithOneSentence) {
  const fs::path page = root_ / "none.html", folder = root_ / "broken";
  const auto expect = [&](const std::string& runs, int code, const std::string& says) {
    const Result result = report(runs, page);
    EXPECT_EQ(result.code, code) << result.output;
    EXPECT_THAT(result.output, HasSubstr(says));
    EXPECT_EQ(std::ranges::count(result.output, '\n'), 1) << result.output;
    EXPECT_FALSE(fs::exists(page));
  };
  expect((root_ / "nowhere").string(), 65, "nowhere: there is no such folder");
  expect((root_ / "input").string(), 65, "config.ini is missing");
  expect("a,,b", 2, "a folder is missing beside a comma");
  copied("broken");
  std::ofstream(folder / "ledger.json") << "{\n\"stages\": ?}";
  expect(folder.string(), 65, "ledger.json:2:");
  expect((root_ / "reference").string() + "," + folder.string(), 65, "ledger.json:2:");
  fs::copy_file(root_ / "reference/ledger.json", folder / "ledger.json",
                fs::copy_options::overwrite_existing);
  const fs::path lines = folder / "stages/05-training/metrics.jsonl";
  fs::remove(lines);
  std::ofstream(lines) << "{\"step\": 1, \"loss\": 2}\n{\"step\": 2, \"loss\": \"much\"}\n";
  expect(folder.string(), 65, "metrics.jsonl:2: `loss` is not a number");
}

}  // namespace
}  // namespace gpuhpc_test
