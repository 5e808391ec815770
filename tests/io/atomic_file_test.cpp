#include "gpuhpc/io/atomic_file.hpp"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "expect_error.hpp"
#include "gpuhpc/io/hdf5.hpp"
#include "scratch_folder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

TEST(AtomicFile, AppearsOnlyWithCommit) {
  const ScratchFolder folder;
  write_text_file(folder / "a.txt", "old");
  {
    AtomicFile file(folder / "a.txt");
    file.write("new");
    EXPECT_EQ(read_text_file(folder / "a.txt"), "old");
  }
  EXPECT_EQ(read_text_file(folder / "a.txt"), "old");
  EXPECT_EQ(names_in(folder.path()).size(), 1U);
  AtomicFile file(folder / "a.txt");
  const std::string big(3'000'000, 'x');
  file.write("new ");
  file.write(big);
  file.write(" end");
  file.commit();
  EXPECT_EQ(read_text_file(folder / "a.txt"), "new " + big + " end");
  EXPECT_EQ(names_in(folder.path()).size(), 1U);
}

TEST(AtomicFile, TakesOverWhatAKilledRunLeft) {
  const ScratchFolder folder;
  write_text_file(folder / "a.txt.tmp", "half a fi");
  write_text_file(folder / "a.txt", "whole");
  EXPECT_EQ(read_text_file(folder / "a.txt"), "whole");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a.txt"});
}

TEST(AtomicFile, RefusesASecondWriter) {
  const ScratchFolder folder;
  const AtomicFile first(folder / "a.txt");
  EXPECT_THAT(error_of(ExitCode::io, [&] { const AtomicFile second(folder / "a.txt"); }),
              HasSubstr("another process is writing it"));
}

TEST(AtomicFile, FollowsLinksAndWritesToDevicesDirectly) {
  const ScratchFolder folder;
  write_text_file(folder / "real.txt", "old");
  fs::create_symlink("real.txt", folder / "link.txt");
  write_text_file(folder / "link.txt", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link.txt"));
  EXPECT_EQ(read_text_file(folder / "real.txt"), "new");
  write_text_file("/dev/null", "gone");
  EXPECT_FALSE(fs::is_regular_file("/dev/null"));
}

TEST(AtomicFile, FullDiskIsAnErrorThatSaysSo) {
  const std::string message = error_of(ExitCode::io, [] { write_text_file("/dev/full", "x"); });
  EXPECT_EQ(message, "cannot write /dev/full: the disk is full; free some space and start again");
}

TEST(AtomicFile, MissingFoldersAndFoldersAreNamed) {
  const ScratchFolder folder;
  EXPECT_THAT(error_of(ExitCode::io, [&] { write_text_file(folder / "no" / "a.txt", "x"); }),
              HasSubstr("no such file or folder"));
  EXPECT_THAT(error_of(ExitCode::io, [&] { write_text_file(folder.path(), "x"); }),
              HasSubstr("this is a folder"));
  EXPECT_THAT(error_of(ExitCode::io, [&] { read_text_file(folder / "none"); }),
              HasSubstr("cannot open " + (folder / "none").string()));
  EXPECT_THAT(error_of(ExitCode::io, [&] { read_text_file(folder.path()); }),
              HasSubstr("cannot read"));
  write_text_file(folder / "file", "x");
  EXPECT_THAT(error_of(ExitCode::io, [&] { create_folder(folder / "file" / "sub"); }),
              HasSubstr("cannot create"));
}

// Runs `work` in a child whose files may not grow beyond `bytes`; its exit status: the code of the
// Error, 0 when none.
int status_with_file_limit(rlim_t bytes, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      work();
    } catch (const Error& error) {
      ::_exit(static_cast<int>(error.code()));
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(AtomicFile, NoHalfWrittenFileWhenSpaceRunsOut) {
  const ScratchFolder folder;
  const std::string text(200'000, 'x');
  EXPECT_EQ(status_with_file_limit(100'000, [&] { write_text_file(folder / "a.txt", text); }), 74);
  EXPECT_TRUE(names_in(folder.path()).empty());
  EXPECT_EQ(status_with_file_limit(300'000, [&] { write_text_file(folder / "a.txt", text); }), 0);
  EXPECT_EQ(names_in(folder.path()).size(), 1U);
}

TEST(AtomicFile, NoHalfWrittenHdf5WhenSpaceRunsOut) {
  const ScratchFolder folder;
  const std::vector<float> values(100'000, 1.F);
  for (const rlim_t limit : {100UL, 5'000UL, 20'000UL, 200'000UL}) {
    const int status = status_with_file_limit(limit, [&] {
      Hdf5Writer file(folder / "a.h5");
      file.dataset<float>("values", values);
      file.commit();
    });
    EXPECT_EQ(status, 74) << limit;
    EXPECT_TRUE(names_in(folder.path()).empty()) << limit;
  }
}

TEST(AtomicFile, AppendsLines) {
  const ScratchFolder folder;
  append_line(folder / "m.jsonl", "{}");
  append_line(folder / "m.jsonl", "[]");
  EXPECT_EQ(read_text_file(folder / "m.jsonl"), "{}\n[]\n");
}

}  // namespace
}  // namespace gpuhpc
