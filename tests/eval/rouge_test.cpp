// Against the rouge-score package: data_tools/fixtures/make_rouge.py.
#include "gpuhpc/eval/rouge.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "gpuhpc/io/json.hpp"

namespace gpuhpc {
namespace {

TEST(RougeScores, AreThoseOfTheRougeScorePackage) {
  const Json rows = read_json(std::filesystem::path(GPUHPC_FIXTURES) / "rouge.json");
  ASSERT_EQ(rows.size(), 125U);
  for (const Json& row : rows) {
    const auto reference = row.at("reference").get<std::string>(),
               text = row.at("text").get<std::string>();
    const Rouge found = rouge(reference, text);
    const RougeScore kinds[] = {found.rouge1, found.rouge2, found.rouge_l, found.rouge_lsum};
    for (std::size_t kind = 0; kind < 4; ++kind) {
      const auto wanted = row.at("scores")[kind].get<std::vector<double>>();
      const std::vector<double> scores{kinds[kind].precision, kinds[kind].recall, kinds[kind].f1};
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(scores[i], wanted[i], 1e-12)
            << rouge_names[kind] << " of \"" << text << "\" for \"" << reference << "\"";
    }
  }
}

TEST(RougeMeans, LieInTheirIntervalsAndOneTextHasNone) {
  std::vector<Rouge> texts;
  for (int i = 0; i < 40; ++i) texts.push_back(rouge("a b c d", i % 4 == 0 ? "a b x" : "d"));
  const auto means = mean_rouge(texts);
  EXPECT_NEAR(means[0].mean, .25 * (4. / 7) + .75 * .4, 1e-12);
  EXPECT_LT(means[0].low, means[0].mean - .01);
  EXPECT_GT(means[0].high, means[0].mean + .01);
  EXPECT_GT(means[0].low, .4);
  EXPECT_LT(means[0].high, 4. / 7);
  const auto one = mean_rouge(std::span(texts).first(1));
  EXPECT_EQ(one[0].low, one[0].high);
}

TEST(FirstSentence, EndsAtItsMarkOrItsLine) {
  EXPECT_EQ(first_sentence("Version 1.2 is out. More follows."), "Version 1.2 is out.");
  EXPECT_EQ(first_sentence("A title\nand text."), "A title");
  EXPECT_EQ(first_sentence("no end"), "no end");
}

}  // namespace
}  // namespace gpuhpc
