#include "gpuhpc/report/fill.hpp"

#include <gtest/gtest.h>

namespace gpuhpc {
namespace {

// Two roots, 0 and 1; 2 and 3 below 0; 4 below 1; 5 below both 3 and 4.
Taxonomy taxonomy() {
  return Taxonomy({"Tools", "Games", "back_up", "editors", "puzzles", "level_editors"},
                  {{0, 2}, {0, 3}, {1, 4}, {3, 5}, {4, 5}});
}

std::vector<std::string> titles(const std::vector<ReportStep>& path) {
  std::vector<std::string> list;
  for (const ReportStep& step : path)
    list.push_back(step.title + (step.predicted ? "+" : "") + (step.gold ? "*" : ""));
  return list;
}

TEST(Fill, ClassesCarryTheirCounts) {
  ReportModel model;
  const std::vector<std::vector<std::int32_t>> labels = {{0, 2}, {0, 3}, {}};
  fill_classes(model, taxonomy(), labels);
  ASSERT_EQ(model.classes.size(), 6u);
  EXPECT_EQ(model.documents, 3);
  EXPECT_EQ(model.classes[2].title, "back up");
  EXPECT_EQ(model.classes[0].predicted, 2);
  EXPECT_EQ(model.classes[5].parents, (std::vector<std::int32_t>{3, 4}));
  EXPECT_FALSE(model.classes[0].gold);
  EvaluationDetails details;
  details.evaluation.classes.resize(6);
  details.evaluation.classes[0].gold = 9;
  fill_evaluation(model, details);
  EXPECT_EQ(model.classes[0].gold, 9);
  EXPECT_TRUE(model.has_gold);
}

TEST(Fill, ExamplesShowWholePaths) {
  ReportModel model;
  const std::vector<ClassScore> scores = {{0, 0.9f}, {1, 0.8f}, {5, 0.5f}, {2, 0.25f}};
  fill_example(model, taxonomy(), {"d", {0, 2, 1, 4, 5}, {0, 3, 1}}, "text", scores);
  const ReportExample& example = model.examples.at(0);
  ASSERT_EQ(example.predicted.size(), 2u);
  EXPECT_EQ(titles(example.predicted[0]), (std::vector<std::string>{"tools+*", "back up+"}));
  EXPECT_EQ(titles(example.predicted[1]),
            (std::vector<std::string>{"games+*", "puzzles+",
                                      "level editors+"}));  // by the predicted parent
  EXPECT_EQ(example.scores, (std::vector<double>{0.25, 0.5}));
  ASSERT_EQ(example.missed.size(), 1u);
  EXPECT_EQ(titles(example.missed[0]), (std::vector<std::string>{"tools+*", "editors*"}));
}

TEST(Fill, AnExampleWithoutAllScoresShowsNone) {
  ReportModel model;
  fill_example(model, taxonomy(), {"d", {2, 4}, {}}, "text", std::vector<ClassScore>{{2, 1.0f}});
  EXPECT_TRUE(model.examples.at(0).scores.empty());
  EXPECT_TRUE(model.examples.at(0).missed.empty());
}

}  // namespace
}  // namespace gpuhpc
