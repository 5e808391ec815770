// pretrain on texts of the demo's packages.
#include "pipeline.hpp"

namespace gpuhpc_test {
namespace {

std::string fmt_two(double value) {
  char text[32];
  std::snprintf(text, sizeof text, " %.2f |", value);
  return text;
}

class Pretraining : public Pipeline {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::temp_directory_path() / ("gpuhpc-pretrain-" + std::to_string(::getpid()));
    fs::create_directories(root_ / "texts/more");
    const std::string corpus = "gzip -dc " +
                               (kSource / "data/debtags-topical/train/corpus.txt.gz").string() +
                               " | cut -f2 ";
    shell(corpus + "| sed -n 1,120p > " + (root_ / "texts/a.txt").string());
    shell(corpus + "| sed -n 121,160p | gzip > " + (root_ / "texts/more/b.txt.gz").string());
  }
  static std::string arguments(const fs::path& run, const std::string& texts = "texts") {
    return "pretrain --input.dir " + (root_ / texts).string() + " --run.dir " + run.string() +
           " --model.encoder " + std::string(GPUHPC_MODELS) +
           "/all-MiniLM-L6-v2 --device.kind cpu --device.threads 1 --train.precision fp32 "
           "--train.dropout 0 --train.max-length 40 --train.batch 48 --train.validation .1";
  }
};

TEST_F(Pretraining, OfANewModelIsTheSameOnRanksAndLeavesAnEncoder) {
  // 120 texts in a.txt, 40 in the folder more, through which an epoch goes three times.
  const std::string rates =
      " --train.encoder-lr 2e-3 --train.head-lr 2e-3 --pretrain.weights more=3";
  const fs::path one = root_ / "one", two = root_ / "two";
  ASSERT_EQ(gpuhpc(arguments(one) + rates).code, 0);
  ASSERT_EQ(gpuhpc(arguments(two) + rates + " --train.micro-batch 5", 2).code, 0);
  const Json figures = metrics(one), others = metrics(two);
  // Nothing learnt: every word of the 30,522 alike.
  EXPECT_NEAR(figures.at("start").at("loss").get<double>(), std::log(30522), .3);
  EXPECT_LT(figures.at("trained").at("loss").get<double>(),
            figures.at("start").at("loss").get<double>() - 1);
  EXPECT_NEAR(figures.at("trained").at("perplexity").get<double>(),
              std::exp(figures.at("trained").at("loss").get<double>()), 1e-6);
  EXPECT_EQ(figures.at("start"), others.at("start"));
  EXPECT_NEAR(figures.at("trained").at("loss").get<double>(),
              others.at("trained").at("loss").get<double>(), 2e-3);
  std::map<std::string, int> updates;
  std::ifstream log(one / "metrics.jsonl");
  for (std::string line; std::getline(log, line);)
    if (const Json entry = Json::parse(line); entry.contains("dataset"))
      ++updates[entry.at("dataset")];
  EXPECT_GT(updates["more"], updates["a.txt"] / 2);
  EXPECT_EQ(updates.size(), 2u);
  // Ten texts after the epoch, and ten at the end.
  const Json samples = Json::parse(read(one / "samples.json")).at(0);
  EXPECT_EQ(samples.at("columns"), Json({"after step", "text", "was", "words"}));
  ASSERT_EQ(samples.at("rows").size(), 20u);
  EXPECT_EQ(samples.at("rows")[10][0], "end");
  EXPECT_THAT(samples.at("rows")[0][1].get<std::string>(), HasSubstr("[MASK]"));
  const std::string card = read(one / "model/README.md");
  EXPECT_THAT(card, HasSubstr("| a.txt | 120 |\n| more | 40 |\n"));
  EXPECT_THAT(card, HasSubstr(fmt_two(figures.at("trained").at("perplexity"))));
  std::string row;
  const Result encoded =
      gpuhpc("encode --device.kind cpu --input.format lines --model.encoder " +
             (one / "model").string() + " --input.file " + (root_ / "texts/a.txt").string() +
             " --output.file " + (root_ / "vectors.jsonl").string());
  ASSERT_EQ(encoded.code, 0) << encoded.output;
  std::ifstream vectors(root_ / "vectors.jsonl");
  std::getline(vectors, row);
  EXPECT_EQ(Json::parse(row).at("embedding").size(), 256u);
}

TEST_F(Pretraining, OfAGivenModelGoesOnFromItsWeights) {
  const fs::path run = root_ / "adapted";
  ASSERT_EQ(gpuhpc(arguments(run) + " --train.layers 1 --train.max-steps 3 --pretrain.model " +
                   std::string(GPUHPC_MODELS) + "/all-MiniLM-L6-v2")
                .code,
            0);
  const Json config = Json::parse(read(run / "model/config.json"));
  EXPECT_EQ(config.at("architectures"), Json({"BertForMaskedLM"}));
  EXPECT_EQ(config.at("num_hidden_layers"), 6);
  EXPECT_LT(metrics(run).at("trained").at("loss"), metrics(run).at("start").at("loss"));
}

TEST_F(Pretraining, LearnsAVocabularyOfItsOwnFirst) {
  const std::string words =
      " --pretrain.vocabulary 1500 --pretrain.tokenizer bpe --train.max-steps 2 "
      "--pretrain.short-length 16";
  const fs::path one = root_ / "own", two = root_ / "own-two";
  ASSERT_EQ(gpuhpc(arguments(one) + words).code, 0);
  ASSERT_EQ(gpuhpc(arguments(two) + words + " --pipeline.to start", 2).code, 0);
  const Json config = Json::parse(read(one / "model/config.json"));
  EXPECT_EQ(config.at("model_type"), "roberta");
  EXPECT_EQ(config.at("vocab_size"), 1500);
  EXPECT_EQ(read(one / "stages/01-vocabulary/tokenizer/tokenizer.json"),
            read(two / "stages/01-vocabulary/tokenizer/tokenizer.json"));
  EXPECT_EQ(read(one / "model/merges.txt"), read(two / "stages/03-start/model/merges.txt"));
  EXPECT_NEAR(metrics(one).at("start").at("loss").get<double>(), std::log(1500), .3);
  // Twice two steps: on pieces of 16 tokens, then on from there.
  EXPECT_TRUE(fs::exists(one / "stages/04-short-training/model/model.safetensors"));
  EXPECT_LT(metrics(one).at("trained").at("loss"), metrics(one).at("start").at("loss"));
}

// The model of a checkpoint is that of a training which ended there.
TEST_F(Pretraining, AStoppedOneIsExportedAndGoesOn) {
  const fs::path run = root_ / "stopped", exported = root_ / "exported", ended = root_ / "ended";
  const std::string endless = arguments(run) +
                              " --train.decay constant --train.warmup 0 --train.max-steps 5000",
                    exporting = " --run.export " + exported.string();
  const fs::path log = root_ / "stopped.txt";
  {
    Child child(endless, log);
    ASSERT_TRUE(child.says("global batch")) << read(log);
    const Result meanwhile = gpuhpc(endless + exporting);
    EXPECT_EQ(meanwhile.code, 78) << meanwhile.output;
    child.interrupt();
    const int status = child.status();
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 75) << read(log);
  }
  const std::string said = read(log);
  const std::size_t place = said.find("stopped at step ");
  ASSERT_NE(place, said.npos);
  const std::string steps = std::to_string(std::stoi(said.substr(place + 16)));
  const std::string config = read(run / "config.ini");
  const Result result = gpuhpc(endless + exporting);
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_EQ(read(run / "config.ini"), config);
  EXPECT_TRUE(fs::exists(run / "checkpoints"));
  ASSERT_EQ(gpuhpc(arguments(ended) +
                   " --train.decay constant --train.warmup 0 --train.max-steps " + steps)
                .code,
            0);
  EXPECT_TRUE(read(exported / "model.safetensors") == read(ended / "model/model.safetensors"));
  EXPECT_EQ(Json::parse(read(exported / "config.json")).at("architectures"),
            Json({"BertForMaskedLM"}));
  const Result again = gpuhpc(endless + exporting);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.output, HasSubstr("it is there already"));
  const Result finished =
      gpuhpc(arguments(ended) + " --train.decay constant --train.warmup 0 --train.max-steps " +
             steps + exporting + "-2");
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.output, HasSubstr("the run is finished"));
}

TEST_F(Pretraining, MeasuresTheDataPathAlone) {
  const fs::path run = root_ / "data";
  const Result result =
      gpuhpc(arguments(run) + " --pretrain.data-only true --train.max-steps 3", 2);
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, testing::ContainsRegex("data path alone: 3 batches of 1[0-9]+ tokens, "
                                                    "1[3-6].[0-9]% of them masked, .* on 2 ranks"));
  EXPECT_FALSE(fs::exists(run / "stages/02-start"));
}

TEST_F(Pretraining, BadTextsEndBeforeTheFirstStage) {
  fs::create_directories(root_ / "binary/.git");
  fs::create_directories(root_ / "empty");
  std::ofstream(root_ / "binary/good.txt") << "a text\n";
  std::ofstream(root_ / "binary/photo.txt") << "another\n\xff\xd8\xff\xe0 JFIF\n";
  const auto refused = [&](const std::string& texts, const std::string& words,
                           const std::string& says, int code) {
    const fs::path run = root_ / ("refused-" + texts);
    const Result result = gpuhpc(arguments(run, texts) + words);
    EXPECT_EQ(result.code, code) << result.output;
    EXPECT_THAT(result.output, HasSubstr(says));
    EXPECT_FALSE(fs::exists(run / "stages"));
  };
  refused("binary", "", "photo.txt:2:", 65);
  refused("empty", "", "there is no file in it", 65);
  refused("texts", " --pretrain.model tiny", "neither small, medium or large", 2);
  refused("texts", " --pretrain.weights more=2,b.txt=3", "there is a.txt, more", 2);
  refused("texts", " --pretrain.weights more=0", "is not NAME=WEIGHT", 2);
  refused("texts", " --pretrain.tokenizer bpe", "no vocabulary is learnt", 2);
  refused("texts", " --pretrain.short-length 40", "is not shorter than --train.max-length 40", 2);
  refused("texts",
          " --pretrain.vocabulary 900 --pretrain.model " + std::string(GPUHPC_MODELS) +
              "/all-MiniLM-L6-v2",
          "has its own", 2);
}

}  // namespace
}  // namespace gpuhpc_test
