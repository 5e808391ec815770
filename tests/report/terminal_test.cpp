#include "gpuhpc/report/terminal.hpp"

#include <gtest/gtest.h>

namespace gpuhpc {
namespace {

Evaluation evaluation() {
  Evaluation made;
  made.figures = {{"example_f1", 0.5, 0.4, 0.6},
                  {"level_1_f1", 0.25, {}, {}},
                  {"mrr_raw", {}, {}, {}},
                  {"precision_at_1", 1.0, 1.0, 1.0}};
  made.levels = {{2, 3, 1}, {5, 3, 1}, {0, 1, 0}};
  return made;
}

TEST(Terminal, TablesAlignByCharacters) {
  EXPECT_EQ(format_table({"name", "n"}, {{"gr\xC3\xBC\xC3\x9F", "1"}, {"longer", "200"}}),
            "name      n\n"
            "------  ---\n"
            "gr\xC3\xBC\xC3\x9F      1\n"
            "longer  200\n");
}

TEST(Terminal, MetricsShowIntervalsAndWhatIsMissing) {
  EXPECT_EQ(format_metrics(evaluation()),
            "measure     value    95% interval\n"
            "----------  -----  --------------\n"
            "Example-F1  0.500  0.400 .. 0.600\n"
            "P@1         1.000  1.000 .. 1.000\n");
  const std::string all = format_metrics(evaluation(), true);
  EXPECT_NE(all.find("F1 at level 1  0.250               -\n"), std::string::npos) << all;
  EXPECT_NE(all.find("MRR, raw           -               -\n"), std::string::npos) << all;
}

TEST(Terminal, LevelsAndStages) {
  EXPECT_EQ(format_levels(evaluation()),
            "level  gold  predicted  right      P      R     F1\n"
            "-----  ----  ---------  -----  -----  -----  -----\n"
            "1         2          3      1  0.333  0.500  0.400\n"
            "2         5          3      1  0.333  0.200  0.250\n"
            "3         0          1      0  0.000  0.000  0.000\n");
  const std::string stages =
      format_stages({{"refinement", 70, true, 300 << 20}, {"training", 60, false, 2'000LL << 20}});
  EXPECT_NE(stages.find("reused"), std::string::npos);
  EXPECT_NE(stages.find("all stages  2:10  2,000"), std::string::npos) << stages;
  EXPECT_EQ(stages.find("GPU"), std::string::npos) << stages;
  EXPECT_NE(format_stages({{"training", 60}}).find("training    1:00       done"),
            std::string::npos)
      << format_stages({{"training", 60}});
  EXPECT_NE(
      format_stages({{"training", 60, false, 2'000LL << 20, 900 << 20}}).find("2,000      900"),
      std::string::npos);
}

TEST(Terminal, CountsHaveSeparators) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-123), "-123");
  EXPECT_EQ(format_count(-1234), "-1,234");
}

TEST(Terminal, EveryFigureHasATitle) {
  EXPECT_EQ(figure_title("precision_at_1"), "P@1");
  EXPECT_EQ(figure_title("level_12_f1"), "F1 at level 12");
  EXPECT_EQ(figure_title("something_new"), "something new");
  EXPECT_FALSE(figure_about("mrr_filtered").empty());
  EXPECT_EQ(figure_group("mrr_filtered"), "Ranking of the classes");
  EXPECT_EQ(figure_group("spearman"), "") << "of another job";
  EXPECT_TRUE(figure_is_headline("example_f1"));
  EXPECT_TRUE(figure_is_headline("exact_match"));
  EXPECT_TRUE(figure_is_headline("top5_accuracy"));
  EXPECT_FALSE(figure_is_headline("micro_recall"));
}

}  // namespace
}  // namespace gpuhpc
