#include <nlohmann/json.hpp>

#include "gpuhpc/eval/gold.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/eval/results.hpp"
#include "support.hpp"

namespace gpuhpc {
namespace {

using test::Folder;

LabelledDocuments documents_of(std::vector<std::vector<std::int32_t>> gold,
                               std::vector<std::vector<std::int32_t>> predicted) {
  LabelledDocuments documents;
  for (std::size_t d = 0; d < gold.size(); ++d) documents.ids.push_back(std::to_string(d));
  documents.gold = std::move(gold);
  documents.predicted = std::move(predicted);
  return documents;
}

TEST(Confusion, RowsSumToTheGoldDocuments) {
  const Folder folder;
  const Taxonomy taxonomy = test::small_taxonomy(folder);
  // Children of tools are 2, 3, 4. Found; taken for 3; taken for 3 and 4; given none; found beside
  // a wrong one; both found.
  const auto groups =
      sibling_confusion(taxonomy,
                        documents_of({{0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 4}, {0, 2, 3}},
                                     {{0, 2}, {0, 3}, {0, 3, 4}, {0}, {0, 3, 4}, {0, 2, 3}}),
                        10);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].parent, 0);
  EXPECT_EQ(groups[0].classes, (std::vector<std::int32_t>{2, 3, 4}));
  EXPECT_EQ(groups[0].counts, (std::vector<double>{2, 1.5, 0.5, 1, 0, 1, 0, 0, 0, 0, 1, 0}));
  EXPECT_DOUBLE_EQ(groups[0].confused, 2);
}

TEST(Confusion, WorstGroupsFirstAndRootsAreAGroup) {
  const Folder folder;
  const Taxonomy taxonomy = test::small_taxonomy(folder);
  const auto groups =
      sibling_confusion(taxonomy, documents_of({{0, 2}, {0}, {0}}, {{1, 3}, {1}, {0}}), 10);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].parent, -1);
  EXPECT_DOUBLE_EQ(groups[0].confused, 2);
  EXPECT_EQ(groups[1].parent, 0);
  EXPECT_EQ(sibling_confusion(taxonomy, documents_of({{0, 2}}, {{1, 3}}), 1).size(), 1u);
}

TEST(Histogram, BinsAndSides) {
  std::vector<std::vector<ClassScore>> scores = {{{0, 1.0f}, {1, 0.49f}}, {{2, 0.5f}, {0, -3}}};
  const std::vector<std::vector<std::int32_t>> predicted = {{0, 1}, {0, 2}}, gold = {{0}, {0}};
  const ScoreHistograms both = score_histograms(scores, predicted, gold);
  EXPECT_TRUE(both.with_gold);
  EXPECT_EQ(both.best.correct[19], 1);
  EXPECT_EQ(both.best.wrong[10], 1);
  EXPECT_EQ(both.predicted.wrong[9], 1);
  EXPECT_EQ(both.predicted.correct[0], 1);
  const ScoreHistograms plain = score_histograms(scores, predicted, {});
  EXPECT_FALSE(plain.with_gold);
  EXPECT_EQ(plain.best.correct[10], 1);
}

TEST(Histogram, OfNumbersThatAreNoProbabilitiesHasNoCalibrationError) {
  std::vector<std::vector<ClassScore>> scores = {{{0, 7.5f}}, {{1, -.5f}}, {{1, .75f}}};
  const std::vector<std::vector<std::int32_t>> classes = {{0}, {1}, {0}};
  for (std::size_t d = 0; d < 3; ++d)
    EXPECT_EQ(score_histograms({&scores[d], 1}, {&classes[d], 1}, {&classes[d], 1})
                  .best.calibration_error(),
              d < 2 ? std::nullopt : std::optional(.75));
  EXPECT_EQ(ScoreHistogram().calibration_error(), std::nullopt);
  EXPECT_EQ(ScoreHistogram().calibration_error_by_chance(), std::nullopt);
}

TEST(Examples, AreDistinctAscendingAndSeeded) {
  const auto drawn = draw_examples(1000, 20, 1);
  ASSERT_EQ(drawn.size(), 20u);
  for (std::size_t i = 1; i < drawn.size(); ++i) EXPECT_LT(drawn[i - 1], drawn[i]);
  EXPECT_EQ(drawn, draw_examples(1000, 20, 1));
  EXPECT_NE(drawn, draw_examples(1000, 20, 2));
  EXPECT_EQ(draw_examples(3, 20, 1), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_TRUE(draw_examples(0, 20, 1).empty());
}

class Results : public testing::Test {
 protected:
  Folder folder;
  Taxonomy taxonomy = test::fixture_taxonomy();
  EvaluationDetails details = evaluate_in_detail(
      taxonomy,
      pair_with_gold(read_gold(test::fixture("doc2labels.txt"), taxonomy),
                     read_predictions(test::fixture("predictions.jsonl"), taxonomy)),
      {.bootstrap_samples = 20});
};

TEST_F(Results, MetricsAreOneFlatObject) {
  write_metrics(folder.file("metrics.json"), details.evaluation);
  const auto json = nlohmann::json::parse(test::read_all(folder.file("metrics.json")));
  for (const char* const name :
       {"example_f1", "micro_f1", "macro_f1", "precision_at_1", "precision_at_3", "mrr_filtered",
        "mrr_raw", "hierarchical_f1", "top5_accuracy"})
    for (const char* const end : {"", "_low", "_high"})
      EXPECT_TRUE(json.at(std::string(name) + end).is_number()) << name << end;
  for (const auto& [key, value] : json.items()) {
    const bool interval = key.ends_with("_low") || key.ends_with("_high");
    const bool of_scores = key.starts_with("ece_") || key.starts_with("aurc");
    EXPECT_EQ(value.is_number(), !(of_scores && interval)) << key;
  }
  EXPECT_EQ(json.at("documents"), 230);
  EXPECT_EQ(json.at("example_f1"), *details.evaluation.find("example_f1")->value);
}

TEST_F(Results, WorthOfTheScoresEqualsNumpy) {
  const auto expected =
      nlohmann::json::parse(test::read_all(test::fixture("expected.json"))).at("scores");
  for (const char* const name : {"ece_best", "ece_labels", "aurc"})
    EXPECT_NEAR(*details.evaluation.find(name)->value, expected.at(name).get<double>(), 1e-6)
        << name;
  // a normal variable's mean distance beside that of 20,000 draws
  for (const char* const name : {"ece_best_by_chance", "ece_labels_by_chance"})
    EXPECT_NEAR(*details.evaluation.find(name)->value, expected.at(name).get<double>(), 4e-4)
        << name;
  const auto risk = expected.at("risk").get<std::vector<double>>();
  ASSERT_EQ(details.coverage.risk.size(), risk.size());
  for (std::size_t i = 0; i < risk.size(); ++i)
    EXPECT_NEAR(details.coverage.risk[i], risk[i], 1e-12) << i;
}

// One wrong of three at .9, then one right: risks 1/3, 1/3, 1/3, 1/4 however the three stand.
TEST_F(Results, DocumentsOfOneScoreHaveNoOrder) {
  const std::vector<std::vector<std::int32_t>> gold{{7}, {7}, {7}, {7}};
  for (const std::size_t wrong : {0, 1, 2}) {
    std::vector<std::vector<ClassScore>> scores{{{7, .9f}}, {{7, .9f}}, {{7, .9f}}, {{7, .2f}}};
    scores[wrong][0].class_id = 3;
    EXPECT_NEAR(risk_coverage(scores, gold).area.value(), 5. / 16, 1e-12) << wrong;
  }
}

TEST_F(Results, MissingFiguresAreNull) {
  Evaluation evaluation = details.evaluation;
  evaluation.figures = {{"mrr_raw", {}, {}, {}}};
  write_metrics(folder.file("metrics.json"), evaluation);
  const auto json = nlohmann::json::parse(test::read_all(folder.file("metrics.json")));
  for (const char* const key : {"mrr_raw", "mrr_raw_low", "mrr_raw_high"})
    EXPECT_TRUE(json.at(key).is_null()) << key;
}

TEST_F(Results, DetailsReadBackAsWritten) {
  write_evaluation(folder.file("a.json"), details, taxonomy);
  write_evaluation(folder.file("b.json"), read_evaluation(folder.file("a.json")), taxonomy);
  const std::string a = test::read_all(folder.file("a.json"));
  EXPECT_GT(a.size(), 5000u);
  EXPECT_EQ(a, test::read_all(folder.file("b.json")));
  EXPECT_EQ(read_evaluation(folder.file("a.json")).examples.size(), 20u);
}

TEST_F(Results, AnotherFileIsRefused) {
  const auto path = folder.write("x.json", "{\"documents\": 3}");
  test::expect_has(test::message_of(ExitCode::bad_data, [&] { read_evaluation(path); }),
                   "x.json: not an evaluation");
}

TEST(Options, AreDeclaredUnderTheirNames) {
  EvalOptions eval;
  SubmissionOptions submission;
  config::OptionSet options;
  declare(options.section("eval", "measures"), eval);
  declare(options.section("output", "files"), submission);
  options.parse({}, {"--eval.bootstrap-samples", "17", "--eval.seed", "5",
                     "--output.submission-header", "id,labels"});
  EXPECT_EQ(eval.bootstrap_samples, 17);
  EXPECT_EQ(eval.seed, 5);
  EXPECT_EQ(submission.header, "id,labels");
  test::message_of(ExitCode::usage, [&] { options.parse({}, {"--eval.bootstrap-samples", "-1"}); });
}

}  // namespace
}  // namespace gpuhpc
