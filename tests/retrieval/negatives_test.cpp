// Exact search and the rules of choosing against sentence-transformers' mine_hard_negatives:
// data_tools/fixtures/make_negatives.py.
#include "gpuhpc/retrieval/negatives.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"

namespace gpuhpc {
namespace {

using Json = nlohmann::json;
using Positives = std::map<std::int32_t, std::vector<std::int32_t>>;  // of each anchor

Matrix matrix(const Json& rows) {
  Matrix result(std::ssize(rows), std::ssize(rows.at(0)));
  for (std::int64_t i = 0; i < result.rows; ++i)
    std::ranges::copy(rows.at(static_cast<std::size_t>(i)).get<std::vector<float>>(),
                      result.row(i).begin());
  return result;
}

NegativeOptions options_of(const Json& given) {
  NegativeOptions options;
  options.negatives = given.at("num_negatives");
  options.range_min = given.value("range_min", 0);
  options.range_max = given.value("range_max", 0);
  const auto text = [&](const char* key) {
    return given.contains(key) ? given.at(key).dump() : std::string("none");
  };
  options.max_score = text("max_score"), options.min_score = text("min_score");
  options.absolute_margin = text("absolute_margin");
  options.relative_margin = text("relative_margin");
  if (given.contains("cross_encoder")) options.cross_encoder = "folder";
  return options;
}

// {anchor, positive, negatives ..} of every pair that has enough.
std::vector<std::vector<std::int32_t>> mine(const Matrix& anchors, const Matrix& texts,
                                            const Positives& positives, const Matrix& cross,
                                            const NegativeOptions& options, std::int64_t most) {
  const NegativeRules rules(options, most);
  NeighbourOptions search;
  search.k = std::min(rules.nearest(), texts.rows), search.above = -2;
  const Neighbours found =
      dense_neighbours(anchors.view(), texts.view(), {0, anchors.rows}, QuerySet::other, search);
  std::vector<std::vector<std::int32_t>> rows;
  NegativeRules::Counts counts{};
  for (const auto& [anchor, of_anchor] : positives) {
    std::vector<ScoredText> nearest;
    for (std::int64_t n = 0; n < search.k; ++n) {
      const auto place = static_cast<std::size_t>(anchor * search.k + n);
      nearest.push_back({found.indices[place], found.weights[place]});
    }
    float least = 1;
    for (const std::int32_t positive : of_anchor) {
      const auto a = anchors.row(anchor), b = texts.row(positive);
      least = std::min(least, options.cross_encoder.empty()
                                  ? std::inner_product(a.begin(), a.end(), b.begin(), 0.F)
                                  : cross.row(anchor)[static_cast<std::size_t>(positive)]);
    }
    if (!options.cross_encoder.empty()) {
      for (ScoredText& one : nearest)
        one.score = cross.row(anchor)[static_cast<std::size_t>(one.text)];
      sort_by_score(nearest);
    }
    const std::vector<ScoredText> chosen = rules.choose(nearest, of_anchor, least, counts);
    if (std::ssize(chosen) < options.negatives) continue;
    for (const std::int32_t positive : of_anchor) {
      rows.push_back({anchor, positive});
      for (const ScoredText& one : chosen) rows.back().push_back(one.text);
    }
  }
  EXPECT_GT(counts[NegativeRules::positive], 0);
  return rows;
}

TEST(Negatives, EqualSentenceTransformers) {
  const Json fixture =
      Json::parse(std::ifstream(std::filesystem::path(GPUHPC_FIXTURES) / "negatives.json"));
  const Matrix anchors = matrix(fixture.at("anchors")), texts = matrix(fixture.at("texts")),
               cross = matrix(fixture.at("cross"));
  Positives positives;
  std::map<std::int32_t, std::int64_t> rows;
  std::int64_t most = 0;
  for (const auto& [anchor, text] :
       fixture.at("pairs").get<std::vector<std::pair<std::int32_t, std::int32_t>>>()) {
    auto& of_anchor = positives[anchor];
    if (std::ranges::find(of_anchor, text) == of_anchor.end()) of_anchor.push_back(text);
    most = std::max(most, ++rows[anchor]);
  }
  for (const Json& one : fixture.at("cases"))
    EXPECT_EQ(mine(anchors, texts, positives, cross, options_of(one.at("options")), most),
              one.at("rows").get<std::vector<std::vector<std::int32_t>>>())
        << one.at("options");
}

TEST(Negatives, RulesThatCannotHoldAreRefused) {
  NegativeOptions options;
  options.range_min = 4, options.range_max = 6;
  EXPECT_THROW(NegativeRules(options, 1), Error);
  options.cross_encoder = "folder";
  options.range_max = 7;
  EXPECT_THROW(NegativeRules(options, 1), Error);  // no rule on its scores
  options.cross_encoder.clear();
  EXPECT_EQ(NegativeRules(options, 2).nearest(), 9);
  for (const char* text : {"", "much", ".5x", "inf"}) {
    options.absolute_margin = text;
    EXPECT_THROW(NegativeRules(options, 1), Error) << text;
  }
}

}  // namespace
}  // namespace gpuhpc
