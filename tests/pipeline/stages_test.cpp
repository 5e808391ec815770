// [stage.NAME], where a stage runs; and the stages that come first, --pipeline.adapt.
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

TEST_F(Pipeline, AdaptsTheEncoderToTheTextsFirst) {
  const fs::path one = root_ / "adapted", two = root_ / "adapted-two";
  const std::string words = " --pipeline.adapt mlm --pipeline.adapt-epochs 1 --train.max-steps 3";
  ASSERT_EQ(gpuhpc(arguments(one) + words).code, 0);
  ASSERT_EQ(gpuhpc(arguments(two) + words + " --pipeline.to encoding", 2).code, 0);
  for (const char* stage : {"01-adaptation-texts/tokens", "02-adaptation/model", "03-encoding"})
    expect_same_files(one / "stages" / stage, two / "stages" / stage);
  EXPECT_FALSE(read(one / "stages/03-encoding/documents.h5") ==
               read(root_ / "reference/stages/01-encoding/documents.h5"));
  // The model stands alone: what it labels with is the adapted encoder.
  const std::string texts = " --input.file " + (root_ / "input/test/corpus.txt").string();
  ASSERT_EQ(gpuhpc("predict --device.kind cpu --device.threads 1 --model.dir " +
                   (one / "model").string() + texts + " --output.file " +
                   (root_ / "adapted.jsonl").string())
                .code,
            0);
  EXPECT_LT(largest_difference(one / "predictions.jsonl", root_ / "adapted.jsonl"), 1e-6);
}

TEST_F(Pipeline, LearnsWhichTextGoesOnAfterWhichSentenceFirst) {
  const fs::path one = root_ / "sentences", two = root_ / "sentences-two";
  const std::string words =
      " --pipeline.adapt sentences --train.max-steps 3 --pipeline.to encoding";
  const Result result = gpuhpc(arguments(one) + words);
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("pairs of a text's first sentence and the rest of it"));
  std::ifstream pairs(one / "stages/01-adaptation-pairs/pairs.jsonl"),
      texts(root_ / "input/train/corpus.txt");
  std::string pair, text;
  std::getline(pairs, pair);
  std::getline(texts, text);  // of two sentences
  const Json first = Json::parse(pair);
  EXPECT_EQ(text.substr(text.find('\t') + 1),
            first.at("anchor").get<std::string>() + " " + first.at("positive").get<std::string>());
  EXPECT_TRUE(first.at("anchor").get<std::string>().ends_with(".")) << pair;
  ASSERT_EQ(gpuhpc(arguments(two) + words, 2).code, 0);
  for (const char* stage : {"01-adaptation-pairs", "02-adaptation/model", "03-encoding"})
    expect_same_files(one / "stages" / stage, two / "stages" / stage);
  EXPECT_FALSE(read(one / "stages/03-encoding/documents.h5") ==
               read(root_ / "reference/stages/01-encoding/documents.h5"));
}

}  // namespace
}  // namespace gpuhpc_test
