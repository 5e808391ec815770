// Against sentence-transformers' TripletEvaluator and BinaryClassificationEvaluator
// (data_tools/fixtures/make_embedding.py).
#include "gpuhpc/eval/pairs.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace gpuhpc {
namespace {

nlohmann::json fixture() {
  std::ifstream file(GPUHPC_FIXTURES "/pairs.json");
  return nlohmann::json::parse(file);
}
void expect_figures(const Figures& figures, const nlohmann::json& expected, double within) {
  EXPECT_EQ(figures.size(), expected.size());
  for (const auto& [name, value] : figures)
    EXPECT_NEAR(value, expected.at(name).get<double>(), within) << name;
}

TEST(Pairs, TripletsHaveTheAccuraciesOfSentenceTransformers) {
  const auto given = fixture()["triplets"];
  const auto matrix = [&](const char* column) {
    const auto rows = given[column].get<std::vector<std::vector<float>>>();
    Matrix all(std::ssize(rows), std::ssize(rows.front()));
    for (std::int64_t i = 0; i < all.rows; ++i)
      std::ranges::copy(rows[static_cast<std::size_t>(i)], all.row(i).begin());
    return all;
  };
  const Matrix anchors = matrix("anchors"), positives = matrix("positives"),
               negatives = matrix("negatives");
  expect_figures(triplet_figures(anchors.view(), positives.view(), negatives.view()),
                 given["figures"], 1e-6);
}

// Equal cosines among them; one whose best threshold takes no pair.
TEST(Pairs, ThresholdsHaveTheFiguresOfSentenceTransformers) {
  const auto cases = fixture()["pairs"];
  ASSERT_EQ(cases.size(), 3u);
  for (const auto& given : cases)
    expect_figures(pair_figures(given["cosines"].get<std::vector<float>>(),
                                given["labels"].get<std::vector<float>>()),
                   given["figures"], 1e-7);
}

}  // namespace
}  // namespace gpuhpc
