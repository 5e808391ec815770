// Self-training's targets, and the classifier's starting biases, against NumPy
// (data_tools/fixtures/make_taxoclass.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "gpuhpc/labels/core_classes.hpp"
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

}  // namespace
}  // namespace gpuhpc
