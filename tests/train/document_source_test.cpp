// Documents of real shards as a task's items.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../data/word_tokenizer.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/train/task.hpp"

namespace gpuhpc {
namespace {

using testing::ScratchFolder;
using testing::WordTokenizer;

class Documents : public ::testing::Test {
 protected:
  TokenDataset prepare(const std::string& name, const std::string& corpus) {
    testing::write_unsynced(folder / (name + ".txt"), corpus);
    const auto comm = make_single_communicator();
    prepare_shards(scan_corpus(folder / (name + ".txt"), {}, *comm), tokenizer, folder / name, {},
                   Texts::leave, *comm, 1);
    return TokenDataset(folder / name);
  }
  std::vector<std::int32_t> ids(const std::string& text) const {
    std::vector<std::int32_t> result = tokenizer.special().single.before;
    tokenizer.encode(text, result);
    result.push_back(tokenizer.special().single.after.front());
    return result;
  }
  ScratchFolder folder;
  WordTokenizer tokenizer;
  TokenDataset real = prepare("real", "a\tone two three four five\nb\tsix\nc\tseven eight\n");
  TokenDataset generated = prepare("generated", "g\tnine ten eleven\n");
};

TEST_F(Documents, AreNumberedOneDatasetBehindTheOtherAndCut) {
  const DocumentTask task({&real, &generated}, 5, tokenizer.special().single, {});
  ASSERT_EQ(task.size(), 4);
  EXPECT_EQ(task.cost(0), 5);  // five words cut to three, and the two specials
  EXPECT_EQ(task.cost(1), 3);
  const PackedIds packed = task.pack(std::vector<std::int64_t>{3, 0, 1});
  EXPECT_THAT(packed.documents, ::testing::ElementsAre(3, 0, 1));
  EXPECT_THAT(packed.offsets, ::testing::ElementsAre(0, 5, 10, 13));
  std::vector<std::int32_t> expected = ids("nine ten eleven");
  for (const std::string text : {"one two three", "six"})
    for (const std::int32_t id : ids(text)) expected.push_back(id);
  EXPECT_EQ(packed.token_ids, expected);
}

TEST_F(Documents, SelectionKeepsTheNumbersAndMayBeEmpty) {
  DocumentTask task({&real, &generated}, 96, tokenizer.special().single, {});
  task.select({3, 2});
  ASSERT_EQ(task.size(), 2);
  EXPECT_EQ(task.cost(1), 4);
  EXPECT_THAT(task.pack(std::vector<std::int64_t>{1, 0}).documents, ::testing::ElementsAre(2, 3));
  task.select({});
  EXPECT_EQ(task.size(), 0);  // nothing is labelled: not everything
}

}  // namespace
}  // namespace gpuhpc
