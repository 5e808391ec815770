// [stage.NAME]: where a stage runs.
#include "pipeline.hpp"

namespace gpuhpc_test {
namespace {

TEST_F(Pipeline, AStageMayRunOnOneRankAlone) {
  const fs::path run = root_ / "stage-alone";
  const std::string words = " --parallel.replicas 2 --pipeline.to refinement";
  const Result result = gpuhpc(arguments(run) + words + " --stage.encoding.gpus 1");
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("encoding (rank 0 alone: --stage.encoding.gpus 1)"));
  EXPECT_THAT(result.output, testing::Not(HasSubstr("refinement (rank 0")));
  for (std::size_t stage = 0; stage < 2; ++stage)
    expect_same_files(root_ / "reference/stages" / kStages[stage], run / "stages" / kStages[stage]);
  EXPECT_THAT(read(run / "config.ini"), HasSubstr("[stage.encoding]\ngpus = 1\n"));
  // Read back, forced, it is alone again; on all ranks nothing reruns.
  EXPECT_THAT(
      gpuhpc("run --config " + (run / "config.ini").string() + " --pipeline.force encoding").output,
      HasSubstr("encoding (rank 0 alone"));
  const Result both = gpuhpc(arguments(run) + words + " --stage.encoding.gpus all");
  for (const char* stage : {"encoding", "refinement"})
    EXPECT_THAT(both.output, HasSubstr(std::string(stage) + ": finished before, skipped"));
  const Result unknown = gpuhpc(arguments(run) + words + " --stage.encode.gpus 1");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("[stage.encode]: no such stage; the stages are encoding, "
                                        "refinement, augmentation"));
}

}  // namespace
}  // namespace gpuhpc_test
