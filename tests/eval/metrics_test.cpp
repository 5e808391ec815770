#include "gpuhpc/eval/metrics.hpp"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "gpuhpc/eval/gold.hpp"
#include "support.hpp"

namespace gpuhpc {
namespace {

using test::Folder;

const EvalOptions without_intervals{.bootstrap_samples = 0};

LabelledDocuments fixture_documents(const Taxonomy& taxonomy, const char* predictions) {
  return pair_with_gold(read_gold(test::fixture("doc2labels.txt"), taxonomy),
                        read_predictions(test::fixture(predictions), taxonomy));
}

nlohmann::json expected() {
  return nlohmann::json::parse(test::read_all(test::fixture("expected.json")));
}

LabelledDocuments one_document(std::vector<std::int32_t> gold, std::vector<std::int32_t> predicted,
                               std::vector<ClassScore> scores) {
  LabelledDocuments documents;
  documents.ids = {"d"};
  documents.gold = {std::move(gold)};
  documents.predicted = {std::move(predicted)};
  sort_scores(scores);
  documents.scores = {std::move(scores)};
  return documents;
}

double value_of(const Evaluation& evaluation, const std::string& name) {
  const Figure* const figure = evaluation.find(name);
  EXPECT_TRUE(figure && figure->value) << name;
  return figure && figure->value ? *figure->value : NAN;
}

TEST(Metrics, EqualScikitLearnAndTheDefinitions) {
  const Taxonomy taxonomy = test::fixture_taxonomy();
  const Evaluation evaluation =
      evaluate(taxonomy, fixture_documents(taxonomy, "predictions.jsonl"), without_intervals);
  const auto figures = expected()["figures"];
  EXPECT_EQ(evaluation.figures.size(), figures.size());
  for (const auto& [name, value] : figures.items())
    EXPECT_NEAR(value_of(evaluation, name), value.get<double>(), 1e-14) << name;
}

TEST(Metrics, PerClassF1EqualsScikitLearn) {
  const Taxonomy taxonomy = test::fixture_taxonomy();
  const Evaluation evaluation =
      evaluate(taxonomy, fixture_documents(taxonomy, "submission.csv"), without_intervals);
  const auto f1 = expected()["class_f1"].get<std::vector<double>>();
  ASSERT_EQ(evaluation.classes.size(), f1.size());
  for (std::size_t c = 0; c < f1.size(); ++c)
    EXPECT_NEAR(evaluation.classes[c].f1(), f1[c], 1e-15) << c;
}

TEST(Metrics, RankingFiguresAreNullFromACsv) {
  const Taxonomy taxonomy = test::fixture_taxonomy();
  const Evaluation from_csv =
      evaluate(taxonomy, fixture_documents(taxonomy, "submission.csv"), {.bootstrap_samples = 50});
  const Evaluation from_jsonl = evaluate(taxonomy, fixture_documents(taxonomy, "predictions.jsonl"),
                                         {.bootstrap_samples = 50});
  ASSERT_EQ(from_csv.figures.size(), from_jsonl.figures.size());
  for (std::size_t f = 0; f < from_csv.figures.size(); ++f) {
    const Figure &a = from_csv.figures[f], &b = from_jsonl.figures[f];
    EXPECT_EQ(a.name, b.name);
    const bool ranking = a.name.starts_with("precision_at") || a.name.starts_with("mrr") ||
                         a.name.starts_with("top5");
    EXPECT_EQ(a.value.has_value(), !ranking) << a.name;
    EXPECT_TRUE(b.value && b.low && b.high) << b.name;
    if (ranking) {
      EXPECT_FALSE(a.low || a.high) << a.name;
    } else {
      EXPECT_EQ(a.value, b.value) << a.name;
      EXPECT_EQ(a.low, b.low) << a.name;
      EXPECT_EQ(a.high, b.high) << a.name;
    }
  }
}

TEST(Metrics, RanksByHand) {
  const Folder folder;
  const Taxonomy taxonomy = test::small_taxonomy(folder);
  // Order: 2 (.9), 0 (.8), 4 (.5) = 5 (.5), 1 (.1); 3 and 6 have no score. Gold: 0, 5, 6.
  const auto documents =
      one_document({0, 5, 6}, {0, 2}, {{0, .8f}, {1, .1f}, {2, .9f}, {4, .5f}, {5, .5f}});
  const Evaluation evaluation = evaluate(taxonomy, documents, without_intervals);
  EXPECT_DOUBLE_EQ(value_of(evaluation, "precision_at_1"), 0);
  EXPECT_DOUBLE_EQ(value_of(evaluation, "precision_at_3"),
                   1.0 / 3);  // 2, 0, 4: the smaller id first among equals
  EXPECT_DOUBLE_EQ(value_of(evaluation, "top5_accuracy"), 1);
  // Filtered: 0 behind 2 -> 1/2; 5 behind 2 and its equal 4 -> 1/3; 6 behind all four classes
  // outside gold -> 1/5.
  EXPECT_DOUBLE_EQ(value_of(evaluation, "mrr_filtered"), (1.0 / 2 + 1.0 / 3 + 1.0 / 5) / 3);
  // Raw: 0 is second, 5 fourth, 6 seventh (3 before it, both unscored).
  EXPECT_DOUBLE_EQ(value_of(evaluation, "mrr_raw"), (1.0 / 2 + 1.0 / 4 + 1.0 / 7) / 3);
}

TEST(Metrics, ADocumentWithoutPredictionRanksNothing) {
  const Folder folder;
  const Taxonomy taxonomy = test::small_taxonomy(folder);
  LabelledDocuments documents = one_document({0}, {0}, {{0, .9f}, {2, .1f}});
  documents.ids.push_back("e"), documents.gold.push_back({0});
  documents.predicted.emplace_back(), documents.scores.emplace_back();
  const Evaluation evaluation = evaluate(taxonomy, documents, without_intervals);
  EXPECT_DOUBLE_EQ(value_of(evaluation, "mrr_raw"), .5);
  EXPECT_DOUBLE_EQ(value_of(evaluation, "mrr_filtered"), .5);
  EXPECT_DOUBLE_EQ(value_of(evaluation, "precision_at_1"), .5);
}

TEST(Metrics, ShortGoldSetsDoNotCapPrecisionAt3) {
  const Folder folder;
  const Taxonomy taxonomy = test::small_taxonomy(folder);
  const auto documents = one_document({0}, {0}, {{0, .9f}, {1, .5f}, {2, .4f}, {3, .3f}});
  const Evaluation evaluation = evaluate(taxonomy, documents, without_intervals);
  EXPECT_DOUBLE_EQ(value_of(evaluation, "precision_at_3"), 1);
  EXPECT_DOUBLE_EQ(value_of(evaluation, "precision_at_3_plain"), 1.0 / 3);
}

TEST(Metrics, AncestorsOfBothParentsCountInTheHierarchy) {
  const Folder folder;
  const Taxonomy taxonomy = test::small_taxonomy(folder);
  // Gold 6 closes to {0,1,3,5,6}, prediction 3 to {0,3}.
  const Evaluation evaluation =
      evaluate(taxonomy, one_document({6}, {3}, {{3, 1}}), without_intervals);
  EXPECT_DOUBLE_EQ(value_of(evaluation, "hierarchical_precision"), 1);
  EXPECT_DOUBLE_EQ(value_of(evaluation, "hierarchical_recall"), 2.0 / 5);
  EXPECT_DOUBLE_EQ(value_of(evaluation, "hierarchical_f1"), 4.0 / 7);
  EXPECT_DOUBLE_EQ(value_of(evaluation, "example_f1"), 0);
}

TEST(Metrics, NothingPredictedIsZeroNotAnError) {
  const Folder folder;
  const Taxonomy taxonomy = test::small_taxonomy(folder);
  const Evaluation evaluation =
      evaluate(taxonomy, one_document({6}, {}, {}), {.bootstrap_samples = 10});
  for (const Figure& figure : evaluation.figures) {
    if (figure.name != "hamming_loss") {
      EXPECT_EQ(figure.value, 0.0) << figure.name;
    }
  }
}

TEST(Metrics, NoDocumentsIsAnInputError) {
  const Folder folder;
  const Taxonomy taxonomy = test::small_taxonomy(folder);
  test::message_of(ExitCode::bad_data, [&] { evaluate(taxonomy, {}, {}); });
}

TEST(Bootstrap, AnyNumberOfThreadsGivesTheSameIntervals) {
  const Taxonomy taxonomy = test::fixture_taxonomy();
  const LabelledDocuments documents = fixture_documents(taxonomy, "predictions.jsonl");
  const Evaluation one = evaluate(taxonomy, documents, {.bootstrap_samples = 101}, 1);
  const Evaluation three = evaluate(taxonomy, documents, {.bootstrap_samples = 101}, 3);
  const Evaluation other_seed =
      evaluate(taxonomy, documents, {.bootstrap_samples = 101, .seed = 2}, 1);
  bool differs = false;
  for (std::size_t f = 0; f < one.figures.size(); ++f) {
    EXPECT_EQ(one.figures[f].low, three.figures[f].low) << one.figures[f].name;
    EXPECT_EQ(one.figures[f].high, three.figures[f].high) << one.figures[f].name;
    differs = differs || one.figures[f].low != other_seed.figures[f].low;
  }
  EXPECT_TRUE(differs);
}

// Measures every resample from scratch, its documents written out as often as they were drawn.
TEST(Bootstrap, EqualsMeasuringEveryResample) {
  const Taxonomy taxonomy = test::fixture_taxonomy();
  const LabelledDocuments documents = fixture_documents(taxonomy, "predictions.jsonl");
  constexpr std::int64_t samples = 60;
  const Evaluation evaluation =
      evaluate(taxonomy, documents, {.bootstrap_samples = samples, .seed = 7});
  std::map<std::string, std::vector<double>> values;
  for (std::int64_t k = 0; k < samples; ++k) {
    std::vector<std::uint16_t> counts;
    draw_counts(7, k, documents.size(), counts);
    LabelledDocuments drawn;
    for (std::size_t d = 0; d < counts.size(); ++d)
      for (int i = 0; i < counts[d]; ++i) {
        drawn.ids.push_back(documents.ids[d]);
        drawn.gold.push_back(documents.gold[d]);
        drawn.predicted.push_back(documents.predicted[d]);
        drawn.scores.push_back(documents.scores[d]);
      }
    ASSERT_EQ(drawn.size(), documents.size());
    for (const Figure& figure : evaluate(taxonomy, drawn, without_intervals).figures)
      values[figure.name].push_back(*figure.value);
  }
  for (const Figure& figure : evaluation.figures) {
    if (figure.name.starts_with("macro_")) continue;  // scaled and centred, see the next tests
    EXPECT_NEAR(*figure.low, quantile(values[figure.name], 0.025), 1e-12) << figure.name;
    EXPECT_NEAR(*figure.high, quantile(values[figure.name], 0.975), 1e-12) << figure.name;
    EXPECT_LT(*figure.low, *figure.value) << figure.name;
    EXPECT_GT(*figure.high, *figure.value) << figure.name;
  }
}

// Every class occurs once and is always right: macro-F1 is 1 in truth, and in every resample
// although classes are absent there.
TEST(Bootstrap, AbsentRareClassesDoNotPullMacroF1Down) {
  const Folder folder;
  const Taxonomy taxonomy = test::small_taxonomy(folder);
  LabelledDocuments documents;
  for (std::int32_t c = 0; c < 7; ++c) {
    documents.ids.push_back(std::to_string(c));
    documents.gold.push_back({c});
    documents.predicted.push_back({c});
  }
  const Evaluation evaluation = evaluate(taxonomy, documents, {.bootstrap_samples = 200});
  EXPECT_DOUBLE_EQ(*evaluation.find("macro_f1")->low, 1);
  EXPECT_DOUBLE_EQ(*evaluation.find("macro_f1")->high, 1);
}

// Five documents per class, a third of them wrong: plain percentiles would lie below the figure.
TEST(Bootstrap, MacroIntervalsHoldTheirFigure) {
  std::vector<std::string> names;
  for (int c = 0; c < 200; ++c) names.push_back("class_" + std::to_string(c));
  const Taxonomy taxonomy(names, {});
  LabelledDocuments documents;
  for (std::int32_t d = 0; d < 1000; ++d) {
    documents.ids.push_back(std::to_string(d));
    documents.gold.push_back({d % 200});
    documents.predicted.push_back({d % 3 == 0 ? (d * 7 + 1) % 200 : d % 200});
  }
  const Evaluation evaluation = evaluate(taxonomy, documents, {.bootstrap_samples = 300});
  for (const char* const name :
       {"macro_f1", "macro_precision", "macro_recall", "macro_f1_gold_classes"}) {
    const Figure& figure = *evaluation.find(name);
    EXPECT_LT(*figure.low, *figure.value - 0.01) << name;
    EXPECT_GT(*figure.high, *figure.value + 0.01) << name;
    EXPECT_LT(*figure.high - *figure.low, 0.1) << name;
  }
}

TEST(Bootstrap, DrawsAreUniformAndComplete) {
  std::vector<std::uint16_t> counts;
  std::vector<std::int64_t> total(101, 0);
  for (std::int64_t k = 0; k < 2000; ++k) {
    draw_counts(3, k, 101, counts);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      total[i] += counts[i];
      sum += counts[i];
    }
    ASSERT_EQ(sum, 101);
  }
  for (const std::int64_t count : total)
    EXPECT_NEAR(static_cast<double>(count), 2000, 5 * std::sqrt(2000.0));
}

TEST(Bootstrap, QuantilesAreThoseOfNumPy) {
  std::vector<double> values = {3, 1, 4, 1, 5, 9, 2, 6};
  EXPECT_DOUBLE_EQ(quantile(values, 0.025), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 3.5);
  EXPECT_NEAR(quantile(values, 0.975), 8.475, 1e-12);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 9);
}

TEST(Levels, CountFromOneAtTheRoots) {
  const Folder folder;
  const Levels levels = class_levels(test::small_taxonomy(folder));
  EXPECT_EQ(levels.of_class, (std::vector<std::int32_t>{1, 1, 2, 2, 2, 2, 3}));
  EXPECT_EQ(levels.count, 3);
}

}  // namespace
}  // namespace gpuhpc
