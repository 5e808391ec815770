#include "gpuhpc/data/batches.hpp"

#include <gmock/gmock.h>

#include <numeric>
#include <set>

#include "../io/expect_error.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/base/random.hpp"
#include "word_tokenizer.hpp"

namespace gpuhpc {
namespace {
using ::testing::ElementsAre;
using testing::error_of;
using testing::ScratchFolder;
using testing::WordTokenizer;
using testing::write_unsynced;

std::vector<std::int32_t> random_lengths(std::size_t count) {
  RandomStream random(5, 1);
  std::vector<std::int32_t> lengths(count);
  for (auto& length : lengths) length = static_cast<std::int32_t>(2 + random.below(255));
  return lengths;
}

TEST(Batches, CoverEverythingOnceWithinTheBudget) {
  const auto lengths = random_lengths(5000);
  const BatchOptions options{.token_budget = 4096, .max_items = 40};
  const auto batches = make_batches(lengths, options);
  std::set<std::int64_t> seen;
  std::int32_t last = 1 << 30;
  for (const auto& batch : batches) {
    std::int64_t tokens = 0;
    for (const auto item : batch.items) {
      EXPECT_TRUE(seen.insert(item).second);
      EXPECT_LE(lengths[static_cast<std::size_t>(item)], last);
      last = lengths[static_cast<std::size_t>(item)];
      tokens += last;
    }
    EXPECT_EQ(tokens, batch.tokens);
    EXPECT_LE(tokens, options.token_budget);
    EXPECT_LE(std::ssize(batch.items), options.max_items);
  }
  EXPECT_EQ(seen.size(), lengths.size());
}

TEST(Batches, OneLongItemStandsAlone) {
  const std::vector<std::int32_t> lengths{10, 100, 10};
  const auto batches = make_batches(lengths, {.token_budget = 20, .max_items = 8});
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_THAT(batches[0].items, ElementsAre(1));
  EXPECT_THAT(batches[1].items, ElementsAre(0, 2));
  EXPECT_TRUE(make_batches({}, {}).empty());
}

TEST(Batches, DealtToRanksOnceEachAndEvenly) {
  const auto batches = make_batches(random_lengths(20'000), {});
  for (const int size : {1, 2, 4, 7}) {
    std::set<std::int64_t> seen;
    std::int64_t least = std::int64_t{1} << 60, most = 0;
    for (int rank = 0; rank < size; ++rank) {
      std::int64_t load = 0;
      for (const auto batch : batches_of_rank(batches, rank, size)) {
        EXPECT_TRUE(seen.insert(batch).second);
        load += batches[static_cast<std::size_t>(batch)].tokens;
      }
      least = std::min(least, load);
      most = std::max(most, load);
    }
    EXPECT_EQ(seen.size(), batches.size());
    EXPECT_LE(most - least, BatchOptions().token_budget);
  }
}

TEST(Windows, TruncateAndMean) {
  std::vector<std::int32_t> tokens(10);
  std::iota(tokens.begin(), tokens.end(), 0);
  EXPECT_EQ(windows(tokens, 6, LongDocuments::truncate).size(), 1U);
  EXPECT_THAT(windows(tokens, 6, LongDocuments::truncate)[0], ElementsAre(0, 1, 2, 3));
  const auto all = windows(tokens, 6, LongDocuments::mean);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_THAT(all[1], ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(all[2], ElementsAre(8, 9));
  EXPECT_EQ(windows({}, 6, LongDocuments::mean).size(), 1U);
  EXPECT_TRUE(windows({}, 6, LongDocuments::mean)[0].empty());
  EXPECT_EQ(window_count(8, 6, LongDocuments::mean), 2);
  EXPECT_EQ(long_documents("mean"), LongDocuments::mean);
  error_of(ExitCode::usage, [] { long_documents("middle"); });
}

class Packing : public ::testing::Test {
 protected:
  Packing() {
    write_unsynced(folder / "c.txt", "a\tone two three four five\nb\t\nc\tsix seven\n");
    const auto comm = make_single_communicator();
    prepare_shards(folder / "c.txt", {}, tokenizer, folder / "shards", {}, *comm);
  }
  const ScratchFolder folder;
  const WordTokenizer tokenizer;
};

TEST_F(Packing, WindowsOfADatasetArePackedInOrder) {
  const TokenDataset dataset(folder / "shards");
  const WindowedDataset cut(dataset, 5, LongDocuments::truncate),
      mean(dataset, 5, LongDocuments::mean);
  EXPECT_THAT(std::vector(cut.lengths().begin(), cut.lengths().end()), ElementsAre(5, 2, 4));
  EXPECT_THAT(std::vector(mean.lengths().begin(), mean.lengths().end()), ElementsAre(5, 4, 2, 4));
  EXPECT_EQ(mean.document(0), 0);
  EXPECT_EQ(mean.document(1), 0);
  EXPECT_EQ(mean.document(2), 1);
  EXPECT_EQ(mean.document(3), 2);
  EXPECT_EQ(mean.first_item(1), 2);
  EXPECT_EQ(mean.first_item(3), 4);
  const auto words = dataset.tokens(0), last = dataset.tokens(2);
  PackedIds packed;
  mean.pack({{1, 2, 3}, 10}, 1, 2, packed);
  EXPECT_THAT(packed.token_ids,
              ElementsAre(1, words[3], words[4], 2, 1, 2, 1, last[0], last[1], 2));
  EXPECT_THAT(packed.offsets, ElementsAre(0, 4, 6, 10));
  EXPECT_THAT(packed.documents, ElementsAre(1, 2, 3));
  cut.pack({{2}, 4}, 1, 2, packed);
  EXPECT_THAT(packed.token_ids, ElementsAre(1, last[0], last[1], 2));
  EXPECT_THAT(packed.offsets, ElementsAre(0, 4));
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
