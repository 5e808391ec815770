// Texts behind prompts: what a run or a training was told goes with the model that it leaves.
#include "pipeline.hpp"

namespace gpuhpc_test {
namespace {

class PromptsOf : public Pipeline {
 protected:
  // train-embedding on a few rows of {"anchor", "positive"}.
  static std::string training(const fs::path& run) {
    const fs::path rows = root_ / "rows.jsonl";
    std::ofstream file(rows);
    for (int i = 0; i < 24; ++i)
      file << Json{{"anchor", "word " + std::to_string(i)},
                   {"positive", "text " + std::to_string(i * 7) + " of it"}}
           << "\n";
    return "train-embedding --embedding.train " + rows.string() + " --run.dir " + run.string() +
           " --model.encoder " + std::string(GPUHPC_MODELS) +
           "/all-MiniLM-L6-v2 --device.kind cpu --device.threads 1 --train.precision fp32 "
           "--infer.precision fp32 --train.layers 1 --train.max-length 24 --train.batch 12";
  }
};

// Documents behind one prompt, classes behind another; the model keeps what its documents had.
TEST_F(PromptsOf, TheRunAreThoseOfPredict) {
  const fs::path run = copied("prompted"), out = root_ / "prompted.jsonl";
  const std::string predict = "predict --device.kind cpu --device.threads 1 --model.dir " +
                              (run / "model").string() + " --input.file " +
                              (root_ / "input/test/corpus.txt").string() + " --output.file " +
                              out.string();
  ASSERT_EQ(gpuhpc(arguments(run) + " --model.prompt 'query: ' --model.class-prompt ''").code, 0);
  EXPECT_GT(largest_difference(run / "predictions.jsonl", root_ / "reference/predictions.jsonl"),
            1e-4);
  const Result again = gpuhpc(predict);
  ASSERT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(largest_difference(run / "predictions.jsonl", out), 0);
  EXPECT_THAT(again.output, HasSubstr("texts behind \"query: \""));
  const Result other = gpuhpc(predict + " --model.prompt 'passage: '");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.output, HasSubstr("the model was made with texts behind \"query: \""));
  // Class texts behind the prompt, too: other class vectors, the same document vectors.
  const std::string documents = read(run / "stages/01-encoding/documents.h5"),
                    classes = read(run / "stages/01-encoding/classes.h5");
  ASSERT_EQ(gpuhpc(arguments(run) + " --model.prompt 'query: ' --model.class-prompt 'class: ' "
                                    "--pipeline.to encoding")
                .code,
            0);
  EXPECT_EQ(read(run / "stages/01-encoding/documents.h5"), documents);
  EXPECT_NE(read(run / "stages/01-encoding/classes.h5"), classes);
}

// The folder says what it learnt with, and encode and mine go on with that.
TEST_F(PromptsOf, TrainingAreLearntWrittenAndReadAgain) {
  const fs::path run = root_ / "learnt", mined = root_ / "learnt-mined";
  ASSERT_EQ(gpuhpc(training(run) +
                   R"( --embedding.prompts '{"positive": "passage: "}' --model.prompt 'query: ')"
                   " --train.max-steps 1")
                .code,
            0);
  const Json written = Json::parse(read(run / "model/config_sentence_transformers.json"));
  EXPECT_EQ(written.at("prompts"), (Json{{"anchor", "query: "},
                                         {"positive", "passage: "},
                                         {"query", "query: "},
                                         {"document", "passage: "}}));
  EXPECT_TRUE(written.at("default_prompt_name").is_null());
  const auto encoded = [&](const std::string& file, const std::string& prompt) {
    const fs::path out = root_ / "prompted-vectors.jsonl";
    const Result result = gpuhpc(
        "encode --device.kind cpu --infer.precision fp32 --input.text-field text --model.dir " +
        (run / "model").string() + " --input.file " + file + " --output.file " + out.string() +
        prompt);
    EXPECT_EQ(result.code, 0) << result.output;
    return read(out);
  };
  const std::string bare = (root_ / "bare.jsonl").string(),
                    behind = (root_ / "behind.jsonl").string();
  std::ofstream(bare) << R"({"id": "1", "text": "a game of chess"})"
                      << "\n";
  std::ofstream(behind) << R"({"id": "1", "text": "query: a game of chess"})"
                        << "\n";
  EXPECT_EQ(encoded(bare, " --model.prompt query"), encoded(behind, ""));
  EXPECT_EQ(encoded(bare, " --model.prompt 'query: '"), encoded(behind, ""));
  EXPECT_NE(encoded(bare, ""), encoded(behind, ""));
  // Mined texts are those of the file: their prompts come again when they are learnt.
  ASSERT_EQ(gpuhpc("mine --device.kind cpu --embedding.train " + (root_ / "rows.jsonl").string() +
                   " --model.encoder " + (run / "model").string() + " --run.dir " + mined.string() +
                   R"( --embedding.prompts '{"anchor": "query", "positive": "document"}')")
                .code,
            0);
  EXPECT_THAT(read(mined / "mined.jsonl"), testing::Not(HasSubstr("passage: ")));
}

}  // namespace
}  // namespace gpuhpc_test
