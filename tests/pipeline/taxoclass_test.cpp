// TaxoClass's stages by the real binary, with the sentence encoder and with a small cross-encoder
// of random weights.
#include "pipeline.hpp"

namespace gpuhpc_test {
namespace {

const std::vector<std::string> kTaxoclassStages = {
    "01-encoding",   "02-posterior",     "03-similarity",    "04-cores",
    "05-classifier", "06-self-training", "07-test-encoding", "08-inference"};

class Taxoclass : public Pipeline {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::temp_directory_path() / ("gpuhpc-taxoclass-" + std::to_string(::getpid()));
    make_input(root_ / "input");
    make_encoder(root_ / "encoder", 2);
    ASSERT_EQ(gpuhpc(words(root_ / "reference")).code, 0);
  }
  // Batches of 64 in micro-batches of 16 are whole quarters on 1, 2 and 4 ranks.
  static std::string words(const fs::path& run) {
    return arguments(run) +
           " --pipeline.method taxoclass --train.epochs 1 --train.micro-batch 16 "
           "--taxoclass.graph-hidden 32 --taxoclass.self-training-batches 4 --taxoclass.refresh 2";
  }
  // Runs the program until somewhere below `folder` there is such a file, and kills it.
  static void kill_when_there(const fs::path& folder, const std::string& name,
                              const std::string& words) {
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c",
            ("exec " + std::string(GPUHPC_BINARY) + " " + words + " >/dev/null 2>&1").c_str(),
            nullptr);
      _exit(127);
    }
    const auto there = [&] {
      std::error_code none;
      bool found = false;
      for (fs::recursive_directory_iterator file(folder, none), end; !none && file != end;
           file.increment(none))
        found = found || file->path().filename() == name;
      return found;
    };
    int status = 0;
    while (!there() && waitpid(child, &status, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    ASSERT_TRUE(there());
  }
  static std::string entailment() {
    return " --taxoclass.similarity nli --taxoclass.nli-model " +
           (kSource / "tests/infer/fixtures/nli").string();
  }
};

TEST_F(Taxoclass, LearnsCoreClassesAndLabelsNewText) {
  const fs::path run = root_ / "whole";
  ASSERT_EQ(gpuhpc(words(run) + kAsUsed).code, 0);
  EXPECT_EQ(Json::parse(read(run / "stages/04-cores/core_classes.json")).size(), 300u);
  const Json figures = metrics(run);
  // A little below what is measured: .600, .547, .425; class names alone: .620, .522, .381.
  EXPECT_GT(figures.at("precision_at_1").get<double>(), .58);
  EXPECT_GT(figures.at("precision_at_3").get<double>(), .53);
  EXPECT_GT(figures.at("example_f1").get<double>(), .40);
  EXPECT_EQ(predictions(run / "predictions.jsonl").size(), 100u);
  std::ifstream table(run / "stages/06-self-training/self_training.tsv");
  std::string head;
  std::getline(table, head);
  EXPECT_EQ(head, "batches\tagreement\tchanged_mass\tentropy");
  double batches = -1, agreement = 0, changed = 0, entropy = 0;
  for (int judged = 0; judged <= 4; judged += 2) {  // after the last batch, too
    ASSERT_TRUE(table >> batches >> agreement >> changed >> entropy);
    EXPECT_EQ(batches, judged);
    EXPECT_GT(agreement, .6);  // .649, then .664
    EXPECT_EQ(changed > 0, judged > 0);
    EXPECT_GT(entropy, 6);  // 7.08, then 7.13, of 236 classes
  }
  // `predict` is what the last stage did.
  const fs::path file = root_ / "predicted.jsonl";
  ASSERT_EQ(gpuhpc("predict --device.threads 1 --model.dir " + (run / "model").string() +
                   " --input.file " + (root_ / "input/test/corpus.txt").string() +
                   " --output.file " + file.string())
                .code,
            0);
  EXPECT_EQ(largest_difference(run / "predictions.jsonl", file), 0);
}

// TELEClass's student over classes is TaxoClass's classifier without graph and self-training.
TEST_F(Taxoclass, TeleclassLearnsTheSameCoreClasses) {
  const std::string training = " --train.batch 60 --train.base-batch 45 --train.micro-batch 15";
  const fs::path taxoclass = root_ / "no-graph", teleclass = root_ / "cores";
  ASSERT_EQ(gpuhpc(arguments(taxoclass) + training +
                   " --pipeline.method taxoclass --train.epochs 1 --taxoclass.graph-layers 0 "
                   "--taxoclass.self-training-batches 0 --taxoclass.held-out 0")
                .code,
            0);
  const Result result = gpuhpc(arguments(teleclass) + training + " --teleclass.targets cores", 2);
  ASSERT_EQ(result.code, 0) << result.output;
  for (const char* file : {"model/model.safetensors", "predictions.jsonl"})
    EXPECT_TRUE(read(teleclass / file) == read(taxoclass / file)) << file;
  EXPECT_TRUE(read(teleclass / "stages/05-hierarchy/labels.jsonl") ==
              read(taxoclass / "stages/04-cores/labels.jsonl"));
}

TEST_F(Taxoclass, RanksAgree) {
  for (const auto& [ranks, replicas] : {std::pair{2, ""}, {4, ""}, {1, " --parallel.replicas 4"}}) {
    const fs::path run = root_ / ("ranks" + std::to_string(ranks));
    const Result result = gpuhpc(words(run) + replicas, ranks);
    ASSERT_EQ(result.code, 0) << result.output;
    expect_same_stages(root_ / "reference", run);
    for (const char* file : {"model/model.safetensors", "predictions.jsonl"})
      EXPECT_TRUE(read(run / file) == read(root_ / "reference" / file)) << run << " " << file;
  }
}

// Killed after its first blocks, it keeps them; two ranks give the bytes of one.
TEST_F(Taxoclass, EntailmentGoesOnAfterAKillOnAnyNumberOfRanks) {
  const fs::path run = root_ / "killed-entailment", alone = root_ / "entailment";
  const std::string only = entailment() + " --taxoclass.premise-tokens 16 --pipeline.to similarity";
  ASSERT_EQ(gpuhpc(words(alone) + only).code, 0);
  kill_when_there(run / "checkpoints", "similarity-000000000.h5", words(run) + only);
  ASSERT_EQ(gpuhpc(words(run) + only, 2).code, 0);
  EXPECT_TRUE(read(run / "stages/03-similarity/similarity.h5") ==
              read(alone / "stages/03-similarity/similarity.h5"));
}

TEST_F(Taxoclass, KilledInEveryStageItContinuesToTheSameFiles) {
  expect_same_after_kills(words(root_ / "killed"), root_ / "killed", kTaxoclassStages);
}

// The cross-encoder that is trained here: killed while it learns and gone on with by two ranks, it
// has the bytes of one.
TEST_F(Taxoclass, PairModelIsTrainedAndScoresOnAnyNumberOfRanks) {
  const fs::path alone = root_ / "pair", killed = root_ / "pair-killed";
  // 60 of the 300 documents: a cross-encoder that is no toy takes its time for each pair.
  fs::copy(root_ / "input", root_ / "few", fs::copy_options::recursive);
  {
    std::ifstream all(root_ / "input/train/corpus.txt");
    std::ofstream few(root_ / "few/train/corpus.txt", std::ios::trunc);
    std::string line;
    for (int i = 0; i < 60 && std::getline(all, line); ++i) few << line << "\n";
  }
  const auto of_few = [](std::string words) {
    const std::string input = (root_ / "input").string();
    return words.replace(words.find(input), input.size(), (root_ / "few").string());
  };
  const std::string pair =
      " --taxoclass.similarity pair --taxoclass.pair-examples 200 --taxoclass.premise-tokens 16 "
      "--scoring.class-texts name --train.checkpoint-every 6 --pipeline.to cores";
  const Result result = gpuhpc(of_few(words(alone)) + pair);
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("pairs scored of 14160"));
  EXPECT_EQ(Json::parse(read(alone / "stages/03-pair-model/model/config.json"))
                .at("label2id")
                .at("entailment"),
            1);
  kill_when_there(killed / "checkpoints/pair-model", "manifest.json", of_few(words(killed)) + pair);
  ASSERT_EQ(gpuhpc(of_few(words(killed)) + pair, 2).code, 0);
  for (const char* file : {"stages/03-pair-model/model/model.safetensors",
                           "stages/04-similarity/similarity.h5", "stages/05-cores/labels.jsonl"})
    EXPECT_TRUE(read(killed / file) == read(alone / file)) << file;
}

TEST_F(Taxoclass, OnlyPairsOfTheSearchAreScored) {
  const fs::path search = root_ / "search", full = root_ / "full";
  const std::string only = entailment() + " --taxoclass.premise-tokens 16 --pipeline.to similarity";
  const Result some = gpuhpc(words(search) + only),
               all = gpuhpc(words(full) + only + " --taxoclass.full-matrix true");
  ASSERT_EQ(some.code, 0) << some.output;
  ASSERT_EQ(all.code, 0) << all.output;
  EXPECT_THAT(all.output, HasSubstr("70800 pairs scored of 70800 (100.0%)"));
  EXPECT_THAT(some.output, testing::Not(HasSubstr("(100.0%)")));
  EXPECT_THAT(some.output, HasSubstr("pairs scored of 70800"));
}

TEST_F(Taxoclass, PublishedPresetRuns) {
  const fs::path run = root_ / "paper";
  const Result result =
      gpuhpc(words(run) + " --pipeline.preset paper --train.layers 1 --taxoclass.graph-layers 2");
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_TRUE(metrics(run).at("mrr_filtered").is_number());
}

TEST_F(Taxoclass, WrongOptionsAndFoldersAreOneSentence) {
  const auto refused = [&](const std::string& more, int code, const std::string& sentence) {
    const Result result = gpuhpc(words(root_ / "refused") + more);
    EXPECT_EQ(result.code, code) << result.output;
    EXPECT_THAT(result.output, HasSubstr(sentence));
  };
  refused(" --taxoclass.similarity nli", 2, "--taxoclass.nli-model");
  refused(entailment() + " --taxoclass.hypothesis nothing", 2,
          "no {}, the place of the class's name");
  refused(" --taxoclass.link sigmoid-exp", 2, "--taxoclass.labels-from classifier");
  refused(" --pipeline.preset multi-gpu", 2, "recommended, fixed and paper");
  refused(" --taxoclass.similarity nli --taxoclass.nli-model " + std::string(GPUHPC_MODELS) +
              "/all-MiniLM-L6-v2",
          65, "classifier");
}

}  // namespace
}  // namespace gpuhpc_test
