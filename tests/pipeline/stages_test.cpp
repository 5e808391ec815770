// [stage.NAME], where a stage runs; and the stages that come first, --pipeline.adapt.
#include "pipeline.hpp"

#include <algorithm>

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
  const auto words = [](const fs::path& run) {
    return arguments(run, root_ / "input", "mlm") +
           " --pipeline.adapt-epochs 1 --pipeline.adapt-batch 12 --train.max-steps 3";
  };
  ASSERT_EQ(gpuhpc(words(one)).code, 0);
  ASSERT_EQ(gpuhpc(words(two) + " --pipeline.to encoding", 2).code, 0);
  for (const char* stage :
       {"01-adaptation-texts/tokens", "02-adaptation/model", "03-adaptation-choice", "04-encoding"})
    expect_same_files(one / "stages" / stage, two / "stages" / stage);
  EXPECT_FALSE(read(one / "stages/04-encoding/documents.h5") ==
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

TEST_F(Pipeline, LearnsFirstFromPairsThatTheCorpusGives) {
  const fs::path one = root_ / "pairs", two = root_ / "pairs-two";
  const auto words = [](const fs::path& run) {
    return arguments(run, root_ / "input", "both") +
           " --pipeline.adapt-batch 12 --train.max-steps 3 --pipeline.to encoding";
  };
  const Result result = gpuhpc(words(one));
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("pairs of a text's first sentence and the rest of it"));
  EXPECT_THAT(result.output, HasSubstr("pairs of a text and its neighbour"));
  std::ifstream rows(one / "stages/02-adaptation-pairs/pairs.jsonl"),
      corpus(root_ / "input/train/corpus.txt");
  std::vector<std::string> texts;
  for (std::string line; std::getline(corpus, line);)
    texts.push_back(line.substr(line.find('\t') + 1));
  const auto is_text = [&](const std::string& text) {
    return std::ranges::find(texts, text) != texts.end();
  };
  std::size_t neighbours = 0, of_first = 0;
  for (std::string line; std::getline(rows, line);) {
    const Json pair = Json::parse(line);
    const std::string anchor = pair.at("anchor"), positive = pair.at("positive");
    if (is_text(anchor)) {
      ++neighbours;
      EXPECT_TRUE(is_text(positive) && positive != anchor) << line;
    } else {
      EXPECT_TRUE(anchor.ends_with(".") || anchor.ends_with("!") || anchor.ends_with("?")) << line;
      EXPECT_TRUE(is_text(anchor + " " + positive)) << line;
      if (anchor + " " + positive == texts.front()) ++of_first;  // it has two sentences
    }
  }
  EXPECT_EQ(of_first, 1U);
  EXPECT_GT(neighbours, texts.size() / 4);
  EXPECT_LE(neighbours, texts.size());
  ASSERT_EQ(gpuhpc(words(two), 2).code, 0);
  for (const char* stage : {"01-adaptation-encoding", "02-adaptation-pairs", "03-adaptation/model",
                            "04-adaptation-choice", "05-encoding"})
    expect_same_files(one / "stages" / stage, two / "stages" / stage);
  // Neighbours are those of the encoder as it was; what labels is another.
  const std::string before = read(root_ / "reference/stages/01-encoding/documents.h5");
  EXPECT_TRUE(read(one / "stages/01-adaptation-encoding/documents.h5") == before);
  EXPECT_FALSE(read(one / "stages/05-encoding/documents.h5") == before);
}

TEST_F(Pipeline, ForgetsAnAdaptationThatHarms) {
  const fs::path input = root_ / "longer", few = root_ / "few", as_it_is = root_ / "as-it-is",
                 harmed = root_ / "harmed", kept = root_ / "kept";
  fs::copy(root_ / "input", input, fs::copy_options::recursive);
  ASSERT_EQ(shell("gzip -dc " + (kSource / "data/debtags-topical/train/corpus.txt.gz").string() +
                  " | head -n 600 > " + (input / "train/corpus.txt").string())
                .code,
            0);
  std::string words = " --pipeline.adapt-batch 12 --train.max-steps 2 --pipeline.to encoding";
  const Result of_few = gpuhpc(arguments(few, root_ / "input", "auto") + words);
  EXPECT_THAT(of_few.output, HasSubstr("fewer than 500 pairs teach little"));
  EXPECT_TRUE(read(few / "stages/04-encoding/documents.h5") ==
              read(root_ / "reference/stages/01-encoding/documents.h5"));

  words += " --infer.max-length 16";  // many texts
  ASSERT_EQ(
      gpuhpc(arguments(as_it_is, input) + " --infer.max-length 16 --pipeline.to encoding").code, 0);
  const std::string before = read(as_it_is / "stages/01-encoding/documents.h5");
  const Result bad = gpuhpc(arguments(harmed, input, "auto") + words + " --pipeline.adapt-lr 0.01");
  EXPECT_THAT(bad.output, HasSubstr("(a fall warns of worse labels)"));
  EXPECT_THAT(bad.output, HasSubstr("the encoder stays as it was"));
  EXPECT_TRUE(read(harmed / "stages/04-encoding/documents.h5") == before);
  const Result obeyed =  // what was asked for by name is done
      gpuhpc(arguments(harmed, input, "sentences") + words + " --pipeline.adapt-lr 0.01");
  EXPECT_THAT(obeyed.output, HasSubstr("(a fall warns of worse labels)"));
  EXPECT_FALSE(read(harmed / "stages/04-encoding/documents.h5") == before);

  const Result good = gpuhpc(arguments(kept, input, "auto") + words +
                             " --pipeline.adapt-lr 0 --pipeline.adapt-texts 550");
  EXPECT_THAT(good.output, HasSubstr("550 of the 600 texts are looked at"));
  const std::string pairs = read(kept / "stages/01-adaptation-pairs/pairs.jsonl");
  EXPECT_EQ(std::ranges::count(pairs, '\n'), 550);
  EXPECT_THAT(good.output, HasSubstr("the adapted one with 0."));
  EXPECT_THAT(good.output, testing::Not(HasSubstr("stays as it was")));
}

}  // namespace
}  // namespace gpuhpc_test
