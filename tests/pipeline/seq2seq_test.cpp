// train-seq2seq and generate on short rows of the demo's corpus.
#include "pipeline.hpp"

namespace gpuhpc_test {
namespace {

// The program on ranks under mpirun until the end of the scope, where all of them get a SIGKILL.
class Ranks {
 public:
  Ranks(int ranks, const std::string& words) {
    pid_ = fork();
    if (pid_ != 0) return;
    const std::string launcher = kSource.string() + "/scripts/mpirun.sh " + std::to_string(ranks);
    execl("/bin/sh", "sh", "-c",
          ("exec " + launcher + " " GPUHPC_BINARY " " + words + " >/dev/null 2>&1 </dev/null")
              .c_str(),
          nullptr);
    _exit(127);
  }
  ~Ranks() {
    const std::string own = std::to_string(pid_);
    std::ifstream list("/proc/" + own + "/task/" + own + "/children");
    std::vector<pid_t> ranks;
    for (pid_t rank = 0; list >> rank;) ranks.push_back(rank);
    for (const pid_t rank : ranks) kill(rank, SIGKILL);
    for (const pid_t rank : ranks)
      while (runs(rank)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

 private:
  static bool runs(pid_t pid) {  // nor a zombie
    const std::string stat = read("/proc/" + std::to_string(pid) + "/stat");
    const auto name_end = stat.rfind(')');
    return name_end != std::string::npos && stat.at(name_end + 2) != 'Z';
  }
  pid_t pid_ = 0;
};

class Seq2Seq : public Pipeline {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::temp_directory_path() / ("gpuhpc-seq2seq-" + std::to_string(::getpid()));
    fs::create_directories(root_);
    const std::string corpus = "gzip -dc " +
                               (kSource / "data/debtags-topical/train/corpus.txt.gz").string() +
                               " | cut -f2 | cut -c1-90 | awk 'BEGIN{OFS=\"\\t\"; print "
                               "\"source\",\"target\"} {print $0, substr($0,1,20)}' ";
    shell(corpus + "| sed -n 1,161p > " + (root_ / "train.tsv").string());
    shell(corpus + "| sed -n '1p;162,190p' > " + (root_ / "held.tsv").string());
  }
  static std::string arguments(const fs::path& run) {
    return "train-seq2seq --seq2seq.train " + (root_ / "train.tsv").string() +
           " --seq2seq.validation " + (root_ / "held.tsv").string() + " --seq2seq.model " + kModel +
           " --run.dir " + run.string() +
           " --device.kind cpu --device.threads 1 --train.precision fp32 --infer.precision fp32 "
           "--train.dropout 0 --train.batch 32 --train.epochs 5 --train.encoder-lr 1e-2 "
           "--seq2seq.source-length 40 "
           "--seq2seq.target-length 16 --generate.max-length 12 --seq2seq.rouge-rows 20";
  }
  static inline const std::string kModel = (kSource / "tests/pipeline/fixtures/t5").string();
};

TEST_F(Seq2Seq, IsTheSameOnRanksAndInMicroBatchesAndLeavesAModelThatGenerates) {
  const fs::path one = root_ / "one", two = root_ / "two", four = root_ / "four";
  const Result first = gpuhpc(arguments(one));
  ASSERT_EQ(first.code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("lead-1"));
  ASSERT_EQ(gpuhpc(arguments(two) + " --train.micro-batch 5", 2).code, 0);
  ASSERT_EQ(gpuhpc(arguments(four) + " --train.micro-batch 5", 4).code, 0);
  const Json figures = metrics(one), others = metrics(two);
  EXPECT_EQ(others, metrics(four));  // 1, 2 and 4 ranks add up the same pieces in the same order
  EXPECT_EQ(figures.at("held_out_pairs"), 29);
  EXPECT_LT(figures.at("trained").at("loss").get<double>(),
            figures.at("start").at("loss").get<double>() - .5);
  EXPECT_NEAR(figures.at("trained").at("perplexity").get<double>(),
              std::exp(figures.at("trained").at("loss").get<double>()), 1e-6);
  EXPECT_EQ(figures.at("start"), others.at("start"));
  EXPECT_NEAR(figures.at("trained").at("loss").get<double>(),
              others.at("trained").at("loss").get<double>(), 2e-3);
  // The target is the beginning of the source.
  EXPECT_GT(figures.at("rouge").at("lead-1").at("rouge1").get<double>(), .1);
  const Json config = Json::parse(read(one / "model/config.json"));
  EXPECT_EQ(config.at("task_specific_params").at("summarization").at("prefix"), "summarize: ");

  const auto generated = [&](const std::string& words, int ranks) {
    const fs::path file = root_ / "texts.jsonl";
    const Result result =
        gpuhpc("generate --device.kind cpu --device.threads 1 --infer.precision fp32 --model.dir " +
                   (one / "model").string() + " --input.file " + (root_ / "held.tsv").string() +
                   " --input.text-field source --generate.max-length 9 --output.file " +
                   file.string() + words,
               ranks);
    EXPECT_EQ(result.code, 0) << result.output;
    return read(file);
  };
  const std::string texts = generated("", 1);
  EXPECT_EQ(std::ranges::count(texts, '\n'), 29);
  const Json line = Json::parse(texts.substr(0, texts.find('\n')));
  EXPECT_EQ(line.at("id"), "0");
  EXPECT_TRUE(line.at("text").is_string());
  EXPECT_EQ(generated("", 2), texts);
  EXPECT_EQ(generated("", 4), texts);
  const std::string draws = " --generate.beams 1 --generate.sample true";
  EXPECT_EQ(generated(draws, 1), generated(draws + " --infer.token-budget 90", 2));
  EXPECT_NE(generated(draws, 1), generated(draws + " --seq2seq.prefix ''", 1));
}

// What was written before a kill is not generated again: of one rank, and of two under mpirun after
// which one rank goes on.
TEST_F(Seq2Seq, AKilledGenerationGoesOnAfterItsLastBlock) {
  std::ofstream many(root_ / "many.txt");
  for (int i = 0; i < 1300; ++i)
    many << "word " << i * 7919 % 1300 << (i % 3 ? " of a text\n" : "\n");
  many.close();
  const fs::path whole = root_ / "whole.jsonl", killed = root_ / "killed.jsonl";
  const std::string words =
      "generate --device.kind cpu --device.threads 1 --infer.precision fp32 --model.dir " + kModel +
      " --input.format lines --input.file " + (root_ / "many.txt").string() +
      " --generate.max-length 40 --generate.min-length 30 --output.file ";
  ASSERT_EQ(gpuhpc(words + whole.string()).code, 0);
  const auto partial = [&]() -> fs::path {
    for (const auto& entry : fs::directory_iterator(root_))
      if (entry.path().filename().string().starts_with("killed.jsonl.")) return entry.path();
    return {};
  };
  for (const int ranks : {1, 2}) {
    {
      const Ranks running(ranks, words + killed.string());
      // A block is there when its last line is: a kill can also come within the write.
      while (partial().empty() || std::ranges::count(read(partial()), '\n') < 512)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }  // SIGKILL
    ASSERT_FALSE(fs::exists(killed));
    const Result again = gpuhpc(words + killed.string());
    ASSERT_EQ(again.code, 0) << again.output;
    EXPECT_THAT(again.output, testing::AnyOf(HasSubstr("512 texts were generated before"),
                                             HasSubstr("1024 texts were generated before")))
        << ranks;
    EXPECT_TRUE(read(killed) == read(whole)) << ranks;
    EXPECT_TRUE(partial().empty());
    fs::remove(killed);
  }
}

// What a source of 1,500 tokens keeps for its gradient takes more than 2 MB, one of 40 tokens less
// than a tenth of that: what is limited lies between. The guide's order: half the batch and twice
// the accumulation down to one document, then shorter sources.
TEST_F(Seq2Seq, ATrainingThatDoesNotFitGivesUpStepByStep) {
  std::ofstream rows(root_ / "long.tsv");
  rows << "source\ttarget\n";
  for (int i = 0; i < 8; ++i) {
    for (int word = 0; word < 1500; ++word) rows << (word > 0 ? " " : "") << "ab"[(word + i) % 2];
    rows << "\ta b\n";
  }
  rows.close();
  const fs::path run = root_ / "starved";
  const Result result =
      gpuhpc("train-seq2seq --seq2seq.train " + (root_ / "long.tsv").string() +
             " --train.validation .25 --seq2seq.model " + kModel + " --run.dir " + run.string() +
             " --device.kind cpu --device.threads 1 --train.precision fp32 --infer.precision fp32 "
             "--train.dropout 0 --train.batch 4 --train.micro-batch 4 --train.epochs 1 "
             "--train.eval-batch 2 --seq2seq.source-length 1500 --generate.max-length 4 "
             "--seq2seq.rouge-rows 1 --device.memory-limit 1200000 --train.on-out-of-memory "
             "'seq2seq.source-length=40; train.batch=1'");
  ASSERT_EQ(result.code, 0) << result.output;
  for (const char* says :
       {"step 1: out of memory with 4 documents at once; the batch is computed again with 2, "
        "accumulation 1 -> 2",
        "out of memory with 2 documents at once; the batch is computed again with 1, accumulation "
        "2 -> 4",
        "out of memory with one document at a time",
        "step 1 of 2 of --train.on-out-of-memory: --seq2seq.source-length=40"})
    EXPECT_THAT(result.output, HasSubstr(says));
  EXPECT_THAT(result.output, testing::Not(HasSubstr("step 2 of 2")));
  EXPECT_EQ(metrics(run).at("held_out_pairs"), 2);
  EXPECT_EQ(training_losses(run).size(), 2u);  // 6 pairs in batches of 4
}

TEST_F(Seq2Seq, WhatCannotBeIsRefusedInOneSentence) {
  const auto refused = [&](const std::string& words, const std::string& says, int code) {
    const Result result = gpuhpc(words);
    EXPECT_EQ(result.code, code) << result.output;
    EXPECT_THAT(result.output, HasSubstr(says));
  };
  const std::string train = arguments(root_ / "refused");
  refused(train + " --seq2seq.columns source", "write two names", 2);
  refused(train + " --seq2seq.columns source,none", "none", 65);
  refused(train + " --train.max-length 50", "--seq2seq.source-length", 2);
  refused(train + " --train.validation .1", "both say what to validate on", 2);
  refused(train + " --generate.sample true", "--generate.beams 3", 2);
  refused("generate --model.dir " + (kSource / "tests/pipeline/fixtures/encoder").string() +
              " --input.file " + (root_ / "held.tsv").string(),
          "supported are t5 and mt5", 65);
}

}  // namespace
}  // namespace gpuhpc_test
