// R4: every system call by which an HDF5 file is written fails once, for every reason a disk has.
#include <gmock/gmock.h>

#include "expect_error.hpp"
#include "failing_calls.hpp"
#include "gpuhpc/io/hdf5.hpp"
#include "scratch_folder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using failing_calls::faults;
using ::testing::HasSubstr;

void write_rows(const fs::path& path) {
  const std::vector<float> values(50'000, .3F);
  const std::vector<std::string> texts(3, std::string(9000, 'x'));
  Hdf5Writer file(path);
  file.attribute("maker", "a test");
  file.matrix("values", {values.data(), 10'000, 5});
  file.variable_strings("texts", texts);
  file.commit();
}

// That this process ends in order, the HDF5 library's exit handler included, is a part of the test.
TEST(DiskFaults, OfAnHdf5FileAreOneSentenceAndLeaveNothing) {
  const ScratchFolder folder;
  const fs::path path = folder / "a.h5";
  faults.folder = folder.path().string();
  int failures = 0;
  for (const int error : {ENOSPC, EIO, EDQUOT}) {
    for (int call = 1;; ++call) {
      faults.left = call, faults.error = error;
      faults.on = true;
      try {
        write_rows(path);
      } catch (const Error& failed) {
        faults.on = false;
        EXPECT_EQ(failed.code(), ExitCode::io) << failed.what();
        EXPECT_THAT(failed.what(), HasSubstr("cannot "));
        EXPECT_THAT(failed.what(), HasSubstr(folder.path().string()));
        // The last call syncs the folder: the file is whole and in its place.
        EXPECT_TRUE(fs::is_empty(folder.path()) || fs::exists(path)) << "call " << call;
        ++failures;
      }
      faults.on = false;
      if (faults.left > 0) break;  // there is no such call any more
      if (!fs::exists(path)) continue;
      EXPECT_EQ(Hdf5File(path).matrix("values").row(9999)[4], .3F);
      fs::remove(path);
    }
  }
  EXPECT_GT(failures, 3 * 8);
  write_rows(path);
  EXPECT_EQ(Hdf5File(path).variable_strings("texts").size(), 3u);
}

}  // namespace
}  // namespace gpuhpc
