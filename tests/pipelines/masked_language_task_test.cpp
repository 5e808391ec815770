// Pieces of real shards and their masks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "../data/word_tokenizer.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/pipelines/pretrain/task.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {

using ::testing::ElementsAre;

class MaskedTask : public ::testing::Test {
 protected:
  // Texts of 11, 1 and 5 words, then, in another file, of 10.
  MaskedTask() {
    special.single = {{7}, {8}};
    special.mask = 9;
    prepare("first", "a b c d e f g h i j k\nl\nm n o p q\n");
    prepare("second", "r s t u v w x y z one\n");
  }
  void prepare(const std::string& name, const std::string& lines) {
    write_unsynced(folder / (name + ".txt"), lines);
    const auto comm = make_single_communicator();
    prepare_shards(scan_corpus(folder / (name + ".txt"), {.format = "lines"}, *comm), tokenizer,
                   folder / name, {}, Texts::leave, *comm, 1);
    files.emplace_back(folder / name);
  }
  MaskedLanguageTask task(std::int64_t length, double share, std::uint64_t seed = 3,
                          std::vector<bool> continues = {}) const {
    return {files, length, special, 1000, share, std::move(continues), seed, {}};
  }
  ScratchFolder folder;
  WordTokenizer tokenizer;
  SpecialTokens special;
  std::vector<TokenDataset> files;
};

TEST_F(MaskedTask, PiecesFollowEachOtherThroughTextsAndFiles) {
  const MaskedLanguageTask t = task(6, .15);  // four tokens and two special ones
  ASSERT_EQ(t.documents(), 4);
  ASSERT_EQ(t.size(), 3 + 1 + 2 + 3);
  EXPECT_EQ(t.pieces(2).first, 4);
  EXPECT_EQ(t.pieces(2).last, 6);
  EXPECT_EQ(t.cost(2), 3 + 2);
  const PackedIds packed = t.packed(std::vector<std::int64_t>{2, 5, 6});
  EXPECT_THAT(packed.offsets, ElementsAre(0, 5, 8, 14));
  EXPECT_THAT(packed.documents, ElementsAre(2, 5, 6));
  std::vector<std::int32_t> expected;
  for (const std::string text : {"i j k", "q", "r s t u"}) {
    expected.push_back(7);
    tokenizer.encode(text, expected);
    expected.push_back(8);
  }
  EXPECT_EQ(packed.token_ids, expected);
}

TEST_F(MaskedTask, EachOfManyPiecesIsFound) {
  std::string lines;
  for (int text = 0; text < 700; ++text) {
    for (int word = 0; word <= text * 7 % 23; ++word)
      lines += "w" + std::to_string(text + word) + " ";
    lines += "\n";
  }
  prepare("many", lines);
  const MaskedLanguageTask t = task(6, .15);
  std::int64_t item = 0;
  for (const TokenDataset& file : files)
    for (std::int64_t d = 0; d < file.size(); ++d)
      for (auto rest = file.tokens(d); !rest.empty(); ++item) {
        const auto piece = rest.first(std::min<std::size_t>(4, rest.size()));
        rest = rest.subspan(piece.size());
        std::vector<std::int32_t> expected{7};
        expected.insert(expected.end(), piece.begin(), piece.end());
        expected.push_back(8);
        ASSERT_EQ(t.packed({&item, 1}).token_ids, expected) << item;
      }
  EXPECT_EQ(item, t.size());
  EXPECT_GT(item, 2000);
}

TEST_F(MaskedTask, MasksThePublishedShares) {
  const MaskedLanguageTask t = task(12, .3);
  const std::vector<std::int64_t> items{2, 4};  // "l": one token; "r .. one": ten, three of them
  std::map<std::int64_t, int> chosen;
  int masked = 0, kept = 0, other = 0;
  const int steps = 4000;
  for (int step = 0; step < steps; ++step) {
    PackedIds batch = t.packed(items);
    const PackedIds before = batch;
    const MaskedPlaces places = t.mask(batch, step);
    ASSERT_EQ(places.places.size(), 1u + 3);
    for (std::size_t i = 0; i < places.places.size(); ++i) {
      const auto place = static_cast<std::size_t>(places.places[i]);
      ASSERT_EQ(places.targets[i], before.token_ids[place]);
      ++chosen[places.places[i]];
      const std::int32_t id = batch.token_ids[place];
      id == 9 ? ++masked : id == before.token_ids[place] ? ++kept : ++other;
      batch.token_ids[place] = before.token_ids[place];
    }
    ASSERT_EQ(batch.token_ids, before.token_ids);  // nothing else has changed
  }
  EXPECT_EQ(chosen[1], steps);  // [7 l 8][7 r .. one 8]
  ASSERT_EQ(chosen.size(), 1u + 10);
  for (std::int64_t place = 4; place < 14; ++place) EXPECT_NEAR(chosen[place], .3 * steps, 150);
  const double all = 4. * steps;
  EXPECT_NEAR(masked / all, .8, .016);
  EXPECT_NEAR(kept / all, .1, .012);
  EXPECT_NEAR(other / all, .1, .012);
}

// Shards are checked when they are opened; one that is damaged later must not be read beyond
// tables.
TEST_F(MaskedTask, ATokenThatNoTokenizerGaveIsNamedWithItsShard) {
  const std::filesystem::path shard = folder / "first" / "shard-00000.h5";
  const std::vector<std::int32_t> words(files[0].tokens(2).begin(), files[0].tokens(2).end());
  {
    std::fstream file(shard, std::ios::binary | std::ios::in | std::ios::out);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const std::size_t at =
        bytes.find(std::string_view(reinterpret_cast<const char*>(words.data()), 20));
    ASSERT_NE(at, std::string::npos);
    file.seekp(static_cast<std::streamoff>(at + 16));  // the fifth word, of the second piece
    file.write("\xff\xff\xff\x7f", 4);
  }
  const MaskedLanguageTask t = task(6, .15);
  t.packed(std::vector<std::int64_t>{4});
  try {
    t.packed(std::vector<std::int64_t>{4, 5});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(shard.string() + ": document 2 "));
  }
}

TEST_F(MaskedTask, AMaskDependsOnSeedStepAndPieceAlone) {
  const MaskedLanguageTask t = task(12, .3), of_other_seed = task(12, .3, 4);
  const auto alone = [](const MaskedLanguageTask& of, std::int64_t step) {
    PackedIds batch = of.packed(std::vector<std::int64_t>{3});
    of.mask(batch, step);
    return batch.token_ids;
  };
  PackedIds together = t.packed(std::vector<std::int64_t>{0, 3, 2});
  t.mask(together, 17);
  const auto begin = together.token_ids.begin();
  EXPECT_EQ(std::vector<std::int32_t>(begin + together.offsets[1], begin + together.offsets[2]),
            alone(t, 17));
  EXPECT_EQ(alone(t, -1), alone(t, -1));
  EXPECT_NE(alone(t, 17), alone(t, 18));
  EXPECT_NE(alone(t, 17), alone(of_other_seed, 17));
}

TEST_F(MaskedTask, MasksWholeWords) {
  // The second and third token of "r s t u v w x y z one" go on with the first, the last with "z".
  std::vector<bool> continues(1000);
  std::vector<std::int32_t> ids;
  tokenizer.encode("r s t u v w x y z one", ids);
  for (const std::size_t i : {1u, 2u, 9u}) continues[static_cast<std::size_t>(ids[i])] = true;
  const MaskedLanguageTask t = task(12, .2, 3, continues);  // two of the ten: never the first word
  int pairs = 0;
  for (int step = 0; step < 500; ++step) {
    PackedIds batch = t.packed(std::vector<std::int64_t>{4});
    std::vector<std::int64_t> places = t.mask(batch, step).places;
    std::ranges::sort(places);
    ASSERT_EQ(places.size(), 2u);
    for (const std::int64_t place : {1, 2, 3})
      EXPECT_THAT(places, ::testing::Not(::testing::Contains(place)));
    const bool ninth = places[0] == 9 || places[1] == 9, tenth = places[1] == 10;
    EXPECT_EQ(ninth, tenth);
    pairs += tenth;
  }
  EXPECT_GT(pairs,
            30);  // the only word of two comes first among the six that fit in one step of six
  EXPECT_LT(pairs, 150);
  // A word longer than the share is masked where there is no other.
  const MaskedLanguageTask long_word = task(12, .2, 3, std::vector<bool>(1000, true));
  PackedIds batch = long_word.packed(std::vector<std::int64_t>{3});
  EXPECT_EQ(long_word.mask(batch, 0).places.size(), 5u);
}

TEST(ContinuingIds, AreThoseOfHuggingFacesWholeWordMasks) {
  const auto minilm = load_tokenizer(std::filesystem::path(GPUHPC_MODELS) / "all-MiniLM-L6-v2");
  const std::vector<bool> continues = continuing_ids(*minilm);
  const std::vector<std::int32_t> ids = ids_of(*minilm, "tokenizers, unaffable.");
  std::vector<std::string> begins;
  for (const std::int32_t id : ids)
    if (!continues[static_cast<std::size_t>(id)]) begins.push_back(minilm->decode({&id, 1}, false));
  EXPECT_THAT(begins, ElementsAre("token", ",", "una", "."));
}

}  // namespace
}  // namespace gpuhpc
