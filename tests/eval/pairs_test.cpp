// Against sentence-transformers' TripletEvaluator and BinaryClassificationEvaluator
// (data_tools/fixtures/make_embedding.py).
#include "gpuhpc/eval/pairs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

namespace gpuhpc {
namespace {

nlohmann::json fixture(const std::string& name = "pairs") {
  std::ifstream file(GPUHPC_FIXTURES "/" + name + ".json");
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

// All pairs of the first two sets, which are the same but for the closure; two texts have the same
// direction.
TEST(Pairs, ParaphrasesHaveTheFiguresOfSentenceTransformers) {
  const auto cases = fixture("paraphrases");
  for (std::size_t c = 0; c < 2; ++c) {
    auto vectors = cases[c]["vectors"].get<std::vector<std::vector<float>>>();
    for (auto& v : vectors) {
      float squares = 0;
      for (const float x : v) squares += x * x;
      for (float& x : v) x /= std::sqrt(squares);
    }
    std::vector<ScoredPair> pairs;
    for (std::size_t a = 0; a < vectors.size(); ++a)
      for (std::size_t b = a + 1; b < vectors.size(); ++b)
        pairs.push_back(
            {std::inner_product(vectors[a].begin(), vectors[a].end(), vectors[b].begin(), 0.F),
             static_cast<std::int32_t>(a), static_cast<std::int32_t>(b)});
    std::ranges::sort(pairs, std::greater{}, &ScoredPair::cosine);
    PairSet duplicates;
    for (const auto& row : cases[c]["rows"])
      duplicates.insert(std::minmax(row[0].get<std::int32_t>(), row[1].get<std::int32_t>()));
    if (cases[c]["transitive"]) duplicates = transitive_closure(duplicates);
    expect_figures(paraphrase_figures(pairs, duplicates), cases[c]["figures"], 1e-6);
  }
  EXPECT_EQ(paraphrase_figures({}, {})[0].second, 0);
}

TEST(Pairs, AChainOfPairsJoinsItsEnds) {
  EXPECT_EQ(transitive_closure({{1, 4}, {2, 4}, {3, 9}}),
            (PairSet{{1, 2}, {1, 4}, {2, 4}, {3, 9}}));
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
