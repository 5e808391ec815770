// Self-training's targets, and the classifier's starting biases, against NumPy
// (data_tools/fixtures/make_taxoclass.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "gpuhpc/labels/core_classes.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "world.hpp"

namespace gpuhpc {
namespace {

using testing::ElementsAre;

nlohmann::json fixture() {
  nlohmann::json json;
  std::ifstream(GPUHPC_FIXTURES "/self_training.json") >> json;
  return json;
}

TEST(SelfTraining, TargetsDependOnTheWholeCorpusInAnyPieces) {
  const auto json = fixture();
  const Matrix probabilities = matrix_of(json["probabilities"]);
  FixedSums one(2, probabilities.columns), other(2, probabilities.columns);
  add_probability_sums(probabilities.view().slice(0, 3), one);
  add_probability_sums(probabilities.view().slice(3, probabilities.rows - 3), other);
  for (std::size_t i = 0; i < one.words().size(); ++i)
    one.words()[i] += other.words()[i];  // what ranks do
  Matrix targets(probabilities.rows, probabilities.columns);
  self_training_targets(probabilities.view(), one, targets.view());
  expect_near(targets.values, json["targets"], 1e-6);
}

TEST(SelfTraining, BiasesGiveEachClassItsShare) {
  const auto json = fixture();
  expect_near(
      bias_for_shares(matrix_of(json["logits"]).view(), json["shares"].get<std::vector<float>>()),
      json["biases"], 1e-4);
}

// 0 > 1 > 2, 0 > 3, 1 > 4: cores 1 and 3 make their parents positive and the children of 1 silent.
TEST(CoreLabels, ParentsArePositiveAndChildrenSilent) {
  const Taxonomy taxonomy({"a", "b", "c", "d", "e"}, {{0, 1}, {1, 2}, {0, 3}, {1, 4}});
  const TrainingLabels labels = core_labels(taxonomy, std::vector<ClassId>{1, 3});
  EXPECT_THAT(labels.positives, ElementsAre(0, 1, 3));
  EXPECT_THAT(labels.masked, ElementsAre(2, 4));
  const TrainingLabels nested =
      core_labels(taxonomy, std::vector<ClassId>{1, 2});  // a core below a core is positive
  EXPECT_THAT(nested.positives, ElementsAre(0, 1, 2));
  EXPECT_THAT(nested.masked, ElementsAre(4));
}

TEST(CoreConfidence, ParentsCountOnlyWhenAsked) {
  const Taxonomy taxonomy({"a", "b", "c"}, {{0, 1}, {0, 2}});
  const std::vector<float> similarity{.9F, .5F, .25F};
  EXPECT_FLOAT_EQ(core_confidence(taxonomy, similarity, 1), -.4F);
  EXPECT_FLOAT_EQ(core_confidence(taxonomy, similarity, 1, false), .25F);
}

// Two roots; b and c below a, e below both d and a: four paths, of which two end at e. Odds of the
// leaves by hand, and what the decoder makes of them: L draws from them, however sure or unsure the
// head was of all classes together.
TEST(LeafOdds, AreOneDrawWhateverTheirSum) {
  const Taxonomy taxonomy({"a", "b", "c", "d", "e"}, {{0, 1}, {0, 2}, {3, 4}, {0, 4}});
  Matrix vectors(5, 2), document(1, 2);
  vectors.values = {9, 9, 2, 0, 0, 1, 9, 9, -1, .5};
  document.values = {.6F, -.8F};
  for (const float shift : {0.F, -2.5F, 4.F}) {
    const std::vector<float> bias{7, .3F + shift, -.2F + shift, 7, 1.1F + shift};
    const PathModel model = leaf_odds(taxonomy, vectors.view(), bias);
    Matrix posterior(1, 4), probabilities(1, 5);
    model.posterior(document.view(), posterior.view());
    const double b = std::exp(1.2 + .3), c = std::exp(-.8 - .2), e = std::exp(-.6 - .4 + 1.1),
                 all = b + c + 2 * e;
    expect_near(posterior.values, nlohmann::json{b / all, c / all, e / all, e / all}, 1e-6);
    leaf_probabilities(taxonomy, 3, posterior.view(), probabilities.view());
    EXPECT_NEAR(probabilities.row(0)[1], 1 - std::pow(1 - b / all, 3), 1e-6);
    EXPECT_NEAR(probabilities.row(0)[4], 1 - std::pow(1 - 2 * e / all, 3), 1e-6);
  }
}

// Of two paths whose logits differ by d in every document, the best temperature makes the larger
// one as probable as it is among the targets in the mean, q: T = d / log(q / (1 - q)).
TEST(LeafOdds, TemperatureIsThatOfTheTargetsInTheMean) {
  Matrix logits(3, 2), targets(3, 2);
  logits.values = {5, 3, -1, 1, 7, 5};
  targets.values = {.8F, .2F, .35F, .65F, .71F, .29F};
  const double q = (.8 + .65 + .71) / 3;
  EXPECT_NEAR(scaling_temperature(logits.view(), targets.view()), 2 / std::log(q / (1 - q)), 1e-5);
  // A head that is less sure than the targets is made surer; at most 16 times either way.
  for (float& logit : logits.values) logit /= 10;
  EXPECT_NEAR(scaling_temperature(logits.view(), targets.view()), .2 / std::log(q / (1 - q)), 1e-6);
  targets.values = {1, 0, 0, 1, 1, 0};
  EXPECT_NEAR(scaling_temperature(logits.view(), targets.view()), 1. / 16, 1e-6);
  targets.values = {0, 1, 1, 0, 0, 1};
  EXPECT_NEAR(scaling_temperature(logits.view(), targets.view()), 16, 1e-3);
}

}  // namespace
}  // namespace gpuhpc
