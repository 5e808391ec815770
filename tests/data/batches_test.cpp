#include "gpuhpc/data/batches.hpp"

#include <gmock/gmock.h>

#include <numeric>

#include "../io/expect_error.hpp"

namespace gpuhpc {
namespace {
using ::testing::ElementsAre;

TEST(Windows, TruncateAndMean) {
  std::vector<std::int32_t> tokens(10);
  std::iota(tokens.begin(), tokens.end(), 0);
  EXPECT_EQ(windows(tokens, 4, LongDocuments::truncate).size(), 1U);
  EXPECT_THAT(windows(tokens, 4, LongDocuments::truncate)[0], ElementsAre(0, 1, 2, 3));
  const auto all = windows(tokens, 4, LongDocuments::mean);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_THAT(all[1], ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(all[2], ElementsAre(8, 9));
  EXPECT_EQ(windows({}, 4, LongDocuments::mean).size(), 1U);
  EXPECT_TRUE(windows({}, 4, LongDocuments::mean)[0].empty());
  EXPECT_EQ(window_count(8, 4, LongDocuments::mean), 2);
  EXPECT_EQ(long_documents("mean"), LongDocuments::mean);
  error_of(ExitCode::usage, [] { long_documents("middle"); });
}

TEST(PackedIds, ItemsKeepTheirTokensBetweenTheSpecials) {
  PackedIds packed;
  packed.add(7, std::vector<std::int32_t>{11, 12}, {{1}, {2}});
  packed.add(3, {}, {{1}, {2}});
  EXPECT_THAT(packed.token_ids, ElementsAre(1, 11, 12, 2, 1, 2));
  EXPECT_THAT(packed.offsets, ElementsAre(0, 4, 6));
  EXPECT_THAT(packed.documents, ElementsAre(7, 3));
}

TEST(PackedIds, TextsStandInTheirTemplate) {
  PackedIds packed;
  packed.clear();
  packed.add(4, std::vector<std::int32_t>{20, 21}, {{7}, {8, 9}});
  packed.add(2, {}, {{}, {1}});
  EXPECT_THAT(packed.token_ids, ElementsAre(7, 20, 21, 8, 9, 1));
  EXPECT_THAT(packed.offsets, ElementsAre(0, 5, 6));
}

TEST(PackedIds, PairsKeepTheirSegments) {
  PackedIds packed;
  packed.add_pair(4, std::vector<std::int32_t>{1, 7, 2, 8, 2},
                  std::vector<std::int32_t>{0, 0, 0, 1, 1});
  packed.add_pair(9, std::vector<std::int32_t>{1, 2, 3, 2}, std::vector<std::int32_t>{0, 0, 1, 1});
  EXPECT_THAT(packed.token_ids, ElementsAre(1, 7, 2, 8, 2, 1, 2, 3, 2));
  EXPECT_THAT(packed.segments, ElementsAre(0, 0, 0, 1, 1, 0, 0, 1, 1));
  EXPECT_THAT(packed.offsets, ElementsAre(0, 5, 9));
  EXPECT_THAT(packed.documents, ElementsAre(4, 9));
}

}  // namespace
}  // namespace gpuhpc
