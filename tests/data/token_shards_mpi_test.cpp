// Shards are the same bytes on any number of ranks, and a bad line stops all ranks alike.
#include <gmock/gmock.h>
#include <unistd.h>

#include "../io/scratch_folder.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "word_tokenizer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using testing::WordTokenizer;
using testing::write_unsynced;

class ShardsMpi : public ::testing::Test {
 protected:
  void SetUp() override {
    comm = MpiSession::world();
    std::string name = (fs::temp_directory_path() / "gpuhpc-test-XXXXXX").string();
    if (comm->is_root() && ::mkdtemp(name.data()) == nullptr) name.clear();
    folder = comm->broadcast_string(name);
  }
  void TearDown() override {
    comm->barrier();
    if (comm->is_root()) fs::remove_all(folder);
  }
  void write_corpus(const std::string& end) const {
    if (comm->is_root()) {
      std::string text;
      for (int i = 0; i < 1001; ++i)
        text += std::to_string(i) + "\tsome words and " + std::to_string(i * i) + "\n";
      write_unsynced(folder / "c.txt", text + end);
    }
    comm->barrier();
  }
  ExitCode prepare(const fs::path& shards, Communicator& world) const {
    try {
      prepare_shards(folder / "c.txt", {}, WordTokenizer(), shards, {.shard_documents = 90}, world);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::ok;
  }
  std::unique_ptr<Communicator> comm;
  fs::path folder;
};

TEST_F(ShardsMpi, SameBytesOnAnyNumberOfRanks) {
  write_corpus("");
  ASSERT_EQ(prepare(folder / "many", *comm), ExitCode::ok);
  if (comm->is_root()) {
    const auto single = make_single_communicator();
    ASSERT_EQ(prepare(folder / "one", *single), ExitCode::ok);
    std::int64_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder / "one")) {
      EXPECT_EQ(Fingerprint().add_file(entry.path()).hex(),
                Fingerprint().add_file(folder / "many" / entry.path().filename()).hex())
          << entry.path();
      ++files;
    }
    EXPECT_EQ(files, 13);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder / "many"), fs::directory_iterator()), 13);
  }
  comm->barrier();
  const TokenDataset dataset(folder / "many");
  EXPECT_EQ(dataset.size(), 1001);
  EXPECT_EQ(dataset.id(1000), "1000");
}

TEST_F(ShardsMpi, ABadLineStopsAllRanksAndLeavesNothing) {
  write_corpus("no tab here\n");
  EXPECT_EQ(prepare(folder / "shards", *comm), ExitCode::bad_data);
  comm->barrier();
  EXPECT_TRUE(fs::is_empty(folder / "shards"));
}

}  // namespace
}  // namespace gpuhpc
