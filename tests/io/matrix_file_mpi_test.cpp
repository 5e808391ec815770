// The bytes of a file that many ranks wrote are those that one rank writes.
#include <gmock/gmock.h>
#include <unistd.h>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

class MatrixFileMpi : public ::testing::Test {
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

  void write(const fs::path& path, Communicator& world) const {
    constexpr std::int64_t rows = 40'001, columns = 17;
    MatrixFileWriter file(path, world,
                          {{"values", ElementType::float32, {rows, columns}},
                           {"ids", ElementType::string, {rows}, 12},
                           {"counts", ElementType::int64, {rows}},
                           {"nothing", ElementType::int32, {0}}},
                          {{"made", "here"}});
    const Range mine = items_of_rank(rows, 1000, world.rank(), world.size());
    for (std::int64_t row = mine.first; row < mine.last; ++row) {
      const std::vector<float> values(columns, static_cast<float>(row));
      const std::string id = "id " + std::to_string(row);
      const std::int64_t count = row * 3;
      file.write_rows<float>("values", row, values);
      file.write_strings("ids", row, {&id, 1});
      file.write_rows<std::int64_t>("counts", row, {&count, 1});
    }
    file.commit();
  }

  std::unique_ptr<Communicator> comm;
  fs::path folder;
};

TEST_F(MatrixFileMpi, BytesDoNotDependOnTheRanks) {
  write(folder / "many.h5", *comm);
  if (comm->is_root()) {
    const auto single = make_single_communicator();
    write(folder / "one.h5", *single);
    EXPECT_TRUE(read_text_file(folder / "many.h5") == read_text_file(folder / "one.h5"));
  }
  comm->barrier();
  const Hdf5File file(folder / "many.h5");
  EXPECT_EQ(file.matrix("values").row(40'000)[16], 40'000.F);
  EXPECT_EQ(file.strings("ids")[12'345], "id 12345");
  EXPECT_EQ(file.dataset<std::int64_t>("counts")[7], 21);
  EXPECT_FALSE(fs::exists(folder / "many.h5.tmp"));
}

TEST_F(MatrixFileMpi, AllRanksFailTogether) {
  const auto code = [&] {
    try {
      write(folder / "no" / "folder.h5", *comm);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::ok;
  }();
  EXPECT_EQ(code, ExitCode::io);
}

TEST_F(MatrixFileMpi, NothingStaysWithoutCommit) {
  {
    MatrixFileWriter file(folder / "a.h5", *comm, {{"values", ElementType::float32, {10, 2}}});
    comm->barrier();
  }
  comm->barrier();
  EXPECT_TRUE(fs::is_empty(folder));
}

}  // namespace
}  // namespace gpuhpc
