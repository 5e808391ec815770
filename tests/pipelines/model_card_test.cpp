// The README.md of a trained encoder.
#include "gpuhpc/pipelines/embedding/model_card.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuhpc {
namespace {

using testing::HasSubstr;

TEST(ModelCard, SaysDataScoresAndSettingsWithNamesAsTheyAre) {
  const CardFacts facts{.start = "all_MiniLM",
                        .dimensions = 10,
                        .max_tokens = 77,
                        .data = {{"used to", "file", "rows", "columns"},
                                 {"learn", "a|b`c<i>.jsonl\n# x", "1234", "anchor,positive"}},
                        .scores = {{"encoder", "dimensions", "ndcg@10"},
                                   {"start", "10", "0.4321"},
                                   {"trained", "10", "0.5678"}},
                        .settings = {"embedding.loss = mnrl", "train.schedule = a = b"}};
  const std::string card = model_card(facts).text();
  EXPECT_TRUE(card.starts_with("---\nlibrary_name: sentence-transformers\n")) << card;
  EXPECT_THAT(card, HasSubstr("a vector of 10 numbers"));
  EXPECT_THAT(card, HasSubstr("from all\\_MiniLM; texts are cut after 77 tokens"));
  EXPECT_THAT(card,
              HasSubstr("| learn | a\\|b\\`c\\<i\\>.jsonl \\# x | 1234 | anchor,positive |\n"));
  EXPECT_THAT(card, HasSubstr("| encoder | dimensions | ndcg@10 |\n|---|---|---|\n"
                              "| start | 10 | 0.4321 |\n| trained | 10 | 0.5678 |\n"));
  EXPECT_THAT(card, HasSubstr("| embedding.loss | mnrl |\n| train.schedule | a = b |\n"));
  CardFacts unmeasured = facts;
  unmeasured.scores.clear();
  EXPECT_EQ(model_card(unmeasured).text().find("## Scores"), std::string::npos);
}

}  // namespace
}  // namespace gpuhpc
