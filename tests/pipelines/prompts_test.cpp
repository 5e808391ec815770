// Prompts of a sentence-transformers folder, from the folder to vectors, against its encode()
// (data_tools/fixtures/make_prompts.py); what train-embedding makes of them.
#include "gpuhpc/nn/prompts.hpp"

#include <gmock/gmock.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include "../io/expect_error.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/pipelines/embedding/options.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const fs::path source = "tests/nn/fixtures/prompted_bert";

class PromptedFolder : public ::testing::Test {
 protected:
  PromptedFolder() { fs::copy(source, model_, fs::copy_options::recursive); }
  void set_pooling(const Json& changes) const {
    Json pooling = read_json(source / "1_Pooling/config.json");
    pooling.update(changes);
    write_json(model_ / "1_Pooling/config.json", pooling);
  }
  TextEncoder encoder(const std::string& prompt = Prompts::of_folder) const {
    InferOptions infer;
    infer.precision = "fp32";
    return {model_,
            infer,
            DeviceChoice{false, 0, 1},
            *comm_,
            log_,
            {Pooling::mean, prompt},
            TextEncoder::Length::own};
  }
  static void expect_near(const Matrix& found, const Json& wanted) {
    ASSERT_EQ(found.rows, std::ssize(wanted));
    for (std::int64_t i = 0; i < found.rows; ++i)
      for (std::int64_t j = 0; j < found.columns; ++j)
        ASSERT_NEAR(
            found.row(i)[static_cast<std::size_t>(j)],
            wanted.at(static_cast<std::size_t>(i)).at(static_cast<std::size_t>(j)).get<double>(),
            1e-5)
            << i << ", " << j;
  }

  const ScratchFolder folder_;
  const fs::path model_ = folder_ / "model";
  const std::unique_ptr<Communicator> comm_ = make_single_communicator();
  const Log log_ =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
};

TEST_F(PromptedFolder, GivesTheVectorsOfSentenceTransformers) {
  const Json expected = read_json("tests/nn/fixtures/prompted_bert_texts.json");
  const auto texts = expected.at("texts").get<std::vector<std::string>>();
  for (const char* pooling : {"lasttoken", "mean"}) {
    set_pooling({{"pooling_mode", pooling}});
    const TextEncoder usual = encoder();
    for (const auto& [name, given] : {std::pair<std::string, std::string>{"default", "auto"},
                                      {"none", ""},
                                      {"query", "query"},
                                      {"literal", expected.at("literal").get<std::string>()}}) {
      SCOPED_TRACE(std::string(pooling) + " " + name);
      const Json& wanted = expected.at("vectors").at(pooling).at(name);
      expect_near(encoder(given).encode(texts, *comm_), wanted);
      expect_near(usual.encode(texts, given, *comm_), wanted);  // as class texts are
    }
  }
}

// A prompt of another text is another tokenizer: shards of the one are refused by the other.
TEST_F(PromptedFolder, TokenizesBehindItsPrompt) {
  const EncoderFiles usual{{model_}, {}}, queries{{model_}, {}, {"query"}},
      none{{model_}, {}, {""}};
  const auto plain = load_tokenizer(model_);
  EXPECT_EQ(ids_of(*usual.tokenizer(), "w3"), ids_of(*plain, "w21 w3"));
  EXPECT_EQ(ids_of(*queries.tokenizer(), "w3"), ids_of(*plain, "w7 w9: w3"));
  EXPECT_EQ(none.tokenizer()->fingerprint(), plain->fingerprint());
  EXPECT_NE(usual.tokenizer()->fingerprint(), plain->fingerprint());
  EXPECT_NE(usual.tokenizer()->fingerprint(), queries.tokenizer()->fingerprint());
}

// What a run was told goes with the model that it saves.
TEST_F(PromptedFolder, IsSavedWithThePromptThatWasUsed) {
  const LoadedEncoder loaded = EncoderFiles{{model_}, {}, {"w5 "}}.load();
  save_encoder_folder(folder_ / "saved", loaded.encoder, loaded.model.embedding, loaded.model);
  EXPECT_EQ(read_prompts(folder_ / "saved").text(), "w5 ");
  EXPECT_EQ(read_prompts(folder_ / "saved").text("query"), "w7 w9: ");
}

TEST_F(PromptedFolder, LeavesPromptsOutOfThePoolingAlone) {
  set_pooling({{"include_prompt", false}});
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { encoder(); }),
              HasSubstr("the prompt \"w21 \" would have to be left out of the pooling"));
  EXPECT_EQ(encoder("").width(), 32);
}

EmbeddingOptions pairs(const std::string& prompts, const std::string& columns) {
  EmbeddingOptions options;
  options.files.train = "rows.jsonl";
  options.files.prompts = prompts, options.files.columns = columns;
  return options;
}

TEST_F(PromptedFolder, TrainingTakesItsPromptsForColumnsThatNameNone) {
  const ModelFolder model = read_model_folder(model_);
  const auto prompts = [&](const std::string& said, const std::string& given) {
    const PairFileOptions files = with_prompts(pairs(said, "anchor,positive"), model, given).files;
    return files.prompts_of({"anchor", "positive"});
  };
  EXPECT_THAT(prompts("", "auto"), ElementsAre("w21 ", "w21 "));
  EXPECT_THAT(prompts("", ""), ElementsAre());
  EXPECT_THAT(prompts(R"({"anchor": "query"})", "auto"), ElementsAre("w7 w9: ", "w21 "));
  EXPECT_THAT(prompts(R"({"anchor": "w1: "})", ""), ElementsAre("w1: ", ""));
  EXPECT_THAT(prompts(R"({"anchor": ""})", "query"), ElementsAre("", "w7 w9: "));
}

TEST_F(PromptedFolder, LearntPromptsStandByColumnAndByUse) {
  const Prompts before = read_prompts(model_);
  const auto learnt = [&](const std::string& prompts, const std::string& columns) {
    return learnt_prompts(before, pair_datasets(pairs(prompts, columns)));
  };
  const Prompts two = learnt(R"({"anchor": "q: ", "positive": "w21 "})", "anchor,positive");
  EXPECT_THAT(two.texts, ElementsAre(Pair("anchor", "q: "), Pair("positive", "w21 "),
                                     Pair("query", "q: "), Pair("document", "w21 ")));
  EXPECT_EQ(two.default_name, "document") << "it is what the folder had";
  const Prompts same = learnt(R"({"title": "t: ", "body": "t: "})", "title,body");
  EXPECT_EQ(same.default_name, "title");
  const Prompts one = learnt(R"({"text": "t: "})", "text");
  EXPECT_THAT(one.texts, ElementsAre(Pair("text", "t: ")));
  const Prompts none = learnt("", "anchor,positive");
  EXPECT_EQ(none.text(), "") << "the default one was not learnt with";
  EXPECT_EQ(learnt_prompts({}, pair_datasets(pairs("", "anchor,positive"))), Prompts());
}

}  // namespace
}  // namespace gpuhpc
