#include "gpuhpc/io/resumable_lines.hpp"

#include <gmock/gmock.h>

#include <optional>

#include "expect_error.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "scratch_folder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ResumableLines, WholeBlocksOfTheSameTaskStay) {
  const ScratchFolder folder;
  const fs::path path = folder / "out.jsonl";
  const std::string task = "0123456789abcdef";
  {
    ResumableLines lines(path, task, 3);
    EXPECT_EQ(lines.done(), 0);
    lines.append(std::vector<std::string>{"a", "bb", "ccc"});
    EXPECT_THAT(error_of(ExitCode::io, [&] { ResumableLines second(path, task, 3); }),
                HasSubstr("out.jsonl: another process is writing it"));
  }
  const fs::path partial = folder / "out.jsonl.0123456789ab.partial";
  // A kill in the middle of a block: two lines and a half.
  write_text_file(partial, read_text_file(partial) + "d\ne\nhal");
  EXPECT_FALSE(fs::exists(path));
  {
    ResumableLines other(path, "fedcba9876543210", 3);
    EXPECT_EQ(other.done(), 0);
    EXPECT_THAT(other.others(), ElementsAre(partial));
  }
  ResumableLines lines(path, task, 3);
  EXPECT_EQ(lines.done(), 3);
  lines.append(std::vector<std::string>{"D", "E"});
  lines.commit();
  EXPECT_EQ(read_text_file(path), "a\nbb\nccc\nD\nE\n");
  EXPECT_FALSE(fs::exists(partial));
}

TEST(ResumableLines, AFolderThatIsNotThereIsNamed) {
  const ScratchFolder folder;
  EXPECT_THAT(error_of(ExitCode::io, [&] { ResumableLines none(folder / "none/out", "0", 2); }),
              HasSubstr("none/out"));
}

}  // namespace
}  // namespace gpuhpc
