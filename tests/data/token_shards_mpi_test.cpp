// Shards are the same bytes on any number of ranks, and a bad line stops all ranks alike.
#include <gmock/gmock.h>
#include <unistd.h>

#include "../io/expect_error.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "word_tokenizer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

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
      for (int i = 0; i < documents; ++i)
        text += std::to_string(i) + "\tsome words and " + std::to_string(i * i) + "\n";
      write_unsynced(folder / "c.txt", text + end);
    }
    comm->barrier();
  }
  ExitCode prepare(const fs::path& shards, Communicator& world) const {
    try {
      prepare_shards(scan_corpus(folder / "c.txt", {}, world), WordTokenizer(), shards,
                     {.shard_documents = 2048}, Texts::keep, world, 1);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::ok;
  }
  static constexpr int documents = 9001;  // nine blocks, five shards
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
      EXPECT_TRUE(read_text_file(entry.path()) ==
                  read_text_file(folder / "many" / entry.path().filename()))
          << entry.path();
      ++files;
    }
    EXPECT_EQ(files, 6);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder / "many"), fs::directory_iterator()), 6);
  }
  comm->barrier();
  const TokenDataset dataset(folder / "many");
  EXPECT_EQ(dataset.size(), documents);
  EXPECT_EQ(dataset.id(9000), "9000");
  EXPECT_EQ(dataset.text(4095), "some words and " + std::to_string(4095 * 4095));
}

TEST_F(ShardsMpi, ABadLineStopsAllRanks) {
  write_corpus("no tab here\n");
  EXPECT_EQ(prepare(folder / "shards", *comm), ExitCode::bad_data);
}

TEST_F(ShardsMpi, AFileThatChangesBehindTheScanStopsAllRanksAndLeavesNothing) {
  write_corpus("");
  const CorpusScan scan = scan_corpus(folder / "c.txt", {}, *comm);
  write_corpus("more\tof it\n");
  const auto prepare_again = [&] {
    prepare_shards(scan, WordTokenizer(), folder / "shards", {}, Texts::keep, *comm, 1);
  };
  EXPECT_EQ(
      error_of(ExitCode::bad_data, prepare_again),
      (folder / "c.txt").string() + ": it was changed while this program read it; start again");
  comm->barrier();
  EXPECT_FALSE(fs::exists(folder / "shards"));
}

}  // namespace
}  // namespace gpuhpc
