// Documents of real shards as training items.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../data/word_tokenizer.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/train/batch_source.hpp"

namespace gpuhpc {
namespace {

using testing::ScratchFolder;
using testing::WordTokenizer;

class Documents : public ::testing::Test {
 protected:
  TokenDataset prepare(const std::string& name, const std::string& corpus) {
    testing::write_unsynced(folder / (name + ".txt"), corpus);
    const auto comm = make_single_communicator();
    prepare_shards(folder / (name + ".txt"), {}, tokenizer, folder / name, {.shard_documents = 2},
                   *comm);
    return TokenDataset(folder / name);
  }
  std::vector<std::int32_t> ids(const std::string& text) const {
    std::vector<std::int32_t> result{tokenizer.cls_id()};
    tokenizer.encode(text, result);
    result.push_back(tokenizer.sep_id());
    return result;
  }
  ScratchFolder folder;
  WordTokenizer tokenizer;
  TokenDataset real = prepare("real", "a\tone two three four five\nb\tsix\nc\tseven eight\n");
  TokenDataset generated = prepare("generated", "g\tnine ten eleven\n");
};

TEST_F(Documents, AreNumberedOneDatasetBehindTheOtherAndCut) {
  const DocumentSource source({&real, &generated}, 5, tokenizer.cls_id(), tokenizer.sep_id());
  ASSERT_EQ(source.size(), 4);
  EXPECT_EQ(source.length(0), 5);  // five words cut to three, and the two specials
  EXPECT_EQ(source.length(1), 3);
  const PackedIds packed = source.pack(std::vector<std::int64_t>{3, 0, 1});
  EXPECT_THAT(packed.documents, ::testing::ElementsAre(3, 0, 1));
  EXPECT_THAT(packed.offsets, ::testing::ElementsAre(0, 5, 10, 13));
  std::vector<std::int32_t> expected = ids("nine ten eleven");
  for (const std::string text : {"one two three", "six"})
    for (const std::int32_t id : ids(text)) expected.push_back(id);
  EXPECT_EQ(packed.token_ids, expected);
}

TEST_F(Documents, SelectionKeepsTheNumbersAndMayBeEmpty) {
  DocumentSource source({&real, &generated}, 96, tokenizer.cls_id(), tokenizer.sep_id());
  source.select({3, 2});
  ASSERT_EQ(source.size(), 2);
  EXPECT_EQ(source.length(1), 4);
  EXPECT_THAT(source.pack(std::vector<std::int64_t>{1, 0}).documents, ::testing::ElementsAre(2, 3));
  source.select({});
  EXPECT_EQ(source.size(), 0);  // nothing is labelled: not everything
}

TEST_F(Documents, NumbersAloneServeAFrozenEncoder) {
  const NumberSource source({7, 9, 11});
  EXPECT_EQ(source.size(), 3);
  EXPECT_EQ(source.length(2), 1);
  EXPECT_THAT(source.pack(std::vector<std::int64_t>{2, 0}).documents,
              ::testing::ElementsAre(11, 7));
}

}  // namespace
}  // namespace gpuhpc
