// The page of a run folder, made from the folder alone.
#include "pipeline.hpp"

namespace gpuhpc_test {
namespace {

class Report : public Pipeline {
 protected:
  static Result report(const std::string& runs, const fs::path& page) {
    return gpuhpc("report --report.runs " + runs + " --report.output " + page.string());
  }
};

TEST_F(Report, IsTheOneThatRunWrote) {
  const fs::path run = root_ / "reference", page = root_ / "again.html";
  ASSERT_EQ(report(run.string(), page).code, 0);
  EXPECT_TRUE(read(page) == read(run / "report.html"));
  for (const char* id : {"metrics", "training", "steps", "time", "examples"})
    EXPECT_THAT(read(page), HasSubstr("<section id=\"" + std::string(id) + "\""));
}

TEST_F(Report, OfAStoppedRunShowsWhatIsThere) {
  const fs::path run = root_ / "stopped", page = root_ / "stopped.html";
  ASSERT_EQ(gpuhpc(arguments(run) + " --pipeline.to hierarchy").code, 0);
  const Result early = report(run.string(), page);
  ASSERT_EQ(early.code, 0) << early.output;
  EXPECT_THAT(early.output, HasSubstr("The run is not finished: training, inference are missing"));
  EXPECT_THAT(read(page), testing::Not(HasSubstr("<section id=\"training\"")));
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
  EXPECT_THAT(read(page), HasSubstr("<section id=\"training\""));
  cut << "\n{\"step\": 5}\n" << std::flush;
  const Result broken = report(run.string(), page);
  EXPECT_EQ(broken.code, 65);
  EXPECT_THAT(broken.output, HasSubstr(lines.string() + ":4:"));
}

TEST_F(Report, OfTwoRunsStandsSideBySide) {
  const fs::path other = root_ / "other", page = root_ / "compare.html";
  fs::copy(root_ / "reference", other, fs::copy_options::recursive);
  ASSERT_EQ(gpuhpc(arguments(other) + " --train.epochs 2").code, 0);
  const Result result = report((root_ / "reference").string() + "," + other.string(), page);
  ASSERT_EQ(result.code, 0) << result.output;
  const std::string html = read(page);
  for (const char* id : {"runs", "training", "steps", "time"})
    EXPECT_THAT(html, HasSubstr("<section id=\"" + std::string(id) + "\""));
  EXPECT_THAT(html, HasSubstr("<td>train.epochs</td>"));
  EXPECT_THAT(html, HasSubstr("seconds of training"));
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
  fs::copy(root_ / "reference", folder, fs::copy_options::recursive);
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
