// Documents of real shards as a task's items.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "../data/word_tokenizer.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/train/loader.hpp"
#include "gpuhpc/train/task.hpp"

namespace gpuhpc {
namespace {

class Documents : public ::testing::Test {
 protected:
  TokenDataset prepare(const std::string& name, const std::string& corpus) {
    write_unsynced(folder / (name + ".txt"), corpus);
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

// Shards are checked when they are opened. What becomes of one later a thread of the loader meets.
TEST_F(Documents, OneThatIsDamagedIsNamedWithItsShard) {
  const std::filesystem::path shard = folder / "real" / "shard-00000.h5";
  const TokenDataset damaged(folder / "real");
  const std::vector<std::int32_t> last{real.tokens(2)[0], real.tokens(2)[1]};
  {
    std::fstream file(shard, std::ios::binary | std::ios::in | std::ios::out);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const std::size_t at =
        bytes.find(std::string_view(reinterpret_cast<const char*>(last.data()), 8));
    ASSERT_NE(at, std::string::npos);
    file.seekp(static_cast<std::streamoff>(at + 4));
    file.write("\xff\xff\xff\x7f", 4);
  }
  const DocumentTask task({&generated, &damaged}, 96, tokenizer.special().single, {});
  Loader loader(task, 1);
  loader.ask({0, 1}, 0);
  loader.ask({2, 3}, 1);
  loader.next();
  try {
    loader.next();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(shard.string() + ": document 2 (c): token "));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the shard is damaged"));
  }
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
