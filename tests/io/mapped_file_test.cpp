#include "gpuhpc/io/mapped_file.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>

#include "expect_error.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/hdf5.hpp"
#include "scratch_folder.hpp"

namespace gpuhpc {
namespace {
using ::testing::HasSubstr;

TEST(MappedFile, BytesMovesAndEmptyFiles) {
  const ScratchFolder folder;
  write_text_file(folder / "a", "abc");
  MappedFile first(folder / "a");
  MappedFile second = std::move(first);
  EXPECT_EQ(first.size(), 0);
  ASSERT_EQ(second.size(), 3);
  EXPECT_EQ(second.bytes()[2], std::byte{'c'});
  write_text_file(folder / "b", "");
  EXPECT_TRUE(MappedFile(folder / "b").bytes().empty());
  EXPECT_THAT(error_of(ExitCode::io, [&] { MappedFile none(folder / "none"); }),
              HasSubstr("cannot open"));
  EXPECT_THAT(error_of(ExitCode::io, [&] { MappedFile none(folder.path()); }),
              HasSubstr("this is a folder"));
}

// "rr" among the flags that the kernel keeps of a mapping.
bool reads_at_random(const std::string& file) {
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) here = line.ends_with(file);
    if (here && line.starts_with("VmFlags:")) return line.find(" rr") != line.npos;
  }
  ADD_FAILURE() << file << " is not mapped";
  return false;
}

TEST(MappedFile, RandomReadsAreSaidToTheKernel) {
  const ScratchFolder folder;
  const std::vector<std::int32_t> values(5000, 3);
  Hdf5Writer writer(folder / "random.h5");
  writer.dataset<std::int32_t>("values", values);
  writer.commit();
  const Hdf5File file(folder / "random.h5");
  EXPECT_FALSE(reads_at_random("/random.h5"));
  file.expect_random_reads();
  EXPECT_TRUE(reads_at_random("/random.h5"));
}

TEST(MappedFile, PagesComeBackAfterLettingGo) {
  const ScratchFolder folder;
  std::vector<std::int32_t> values(6'000'000);  // more than Hdf5File checks without letting go
  std::iota(values.begin(), values.end(), 0);
  Hdf5Writer writer(folder / "a.h5");
  writer.dataset<std::int32_t>("values", values);
  writer.commit();
  const Hdf5File file(folder / "a.h5");
  EXPECT_TRUE(std::ranges::equal(file.dataset<std::int32_t>("values"), values));
  const MappedFile mapped(folder / "a.h5");
  const std::byte before = mapped.bytes()[5000];
  mapped.let_go(mapped.bytes());
  EXPECT_EQ(mapped.bytes()[5000], before);
}

}  // namespace
}  // namespace gpuhpc
