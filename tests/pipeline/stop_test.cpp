// Ctrl-C: once saves and leaves, twice leaves at once.
#include "pipeline.hpp"

namespace gpuhpc_test {
namespace {

const std::string kMessage = "stopping after this step; press Ctrl-C again to leave at once\n";

// Steps of about a second: there is time for both signals in one of them.
TEST_F(Pipeline, CtrlCSavesAndLeavesAndASecondOneLeavesAtOnce) {
  const std::string slow_steps = " --train.layers 2 --train.max-length 256 --train.batch 60";
  const auto start = [&](const fs::path& run) {  // only training and inference are run again
    return arguments(copied(run.filename())) + slow_steps;
  };
  const fs::path once = root_ / "interrupted", twice = root_ / "interrupted-twice";
  {
    const fs::path log = root_ / "interrupted.txt";
    Child child(start(once), log);
    ASSERT_TRUE(child.says("global batch")) << read(log);
    child.interrupt();
    const int status = child.status();
    ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 75) << read(log);
    EXPECT_THAT(read(log), HasSubstr(kMessage));
    EXPECT_THAT(read(log), HasSubstr("stopped at step 1 of 5 as asked"));
  }
  {
    const fs::path log = root_ / "interrupted-twice.txt";
    Child child(start(twice), log);
    ASSERT_TRUE(child.says("global batch")) << read(log);
    child.interrupt();
    ASSERT_TRUE(child.says(kMessage)) << read(log);
    child.interrupt();
    const int status = child.status();
    ASSERT_TRUE(WIFSIGNALED(status)) << read(log);
    EXPECT_EQ(WTERMSIG(status), SIGINT);  // 130 in a shell
    EXPECT_THAT(read(log), testing::Not(HasSubstr("as asked")));
  }
  const auto steps_saved = [](const fs::path& run) {
    int found = 0;
    if (fs::exists(run / "checkpoints"))
      for (const auto& entry : fs::recursive_directory_iterator(run / "checkpoints"))
        found += entry.path().filename() == "manifest.json";
    return found;
  };
  EXPECT_EQ(steps_saved(once), 1);
  EXPECT_EQ(steps_saved(twice), 0);
}

}  // namespace
}  // namespace gpuhpc_test
