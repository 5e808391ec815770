// A cross-encoder folder over raw texts against transformers (data_tools/fixtures/make_pairs.py).
#include "gpuhpc/infer/pair_scorer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/infer/encode.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

const fs::path kFolder = fs::path(GPUHPC_FIXTURES) / "nli";

struct Pairs {
  std::vector<TokenIds> premises, hypotheses;
  std::vector<TextPair> all;
  std::vector<float> expected;

  explicit Pairs(const PairScorer& scorer) {
    nlohmann::json json;
    std::ifstream(GPUHPC_FIXTURES "/pairs.json") >> json;
    const auto ids = [&](const char* name) {
      const auto texts = json[name].get<std::vector<std::string>>();
      return tokenize(scorer.tokenizer(), texts, 1);
    };
    premises = ids("premises"), hypotheses = ids("hypotheses");
    for (std::int64_t p = 0; p < std::ssize(premises); ++p)
      for (std::int64_t h = 0; h < std::ssize(hypotheses); ++h) all.push_back({p, h});
    expected = json["entailment"].get<std::vector<float>>();
  }
};

PairScorer scorer(const std::string& precision, int threads = 1, std::int64_t budget = 0) {
  InferOptions options;
  options.precision = precision, options.token_budget = budget;
  return {kFolder, options, {.cuda = false, .index = 0, .threads = threads}};
}

TEST(PairScorer, EntailmentIsThatOfTransformers) {
  const PairScorer fp32 = scorer("fp32");
  const Pairs pairs(fp32);
  EXPECT_THAT(fp32.entailment(pairs.premises, pairs.hypotheses, pairs.all),
              testing::Pointwise(testing::FloatNear(1e-5F), pairs.expected));
  EXPECT_THAT(scorer("tf32").entailment(pairs.premises, pairs.hypotheses, pairs.all),
              testing::Pointwise(testing::FloatNear(1e-4F), pairs.expected));
  EXPECT_THAT(scorer("auto").entailment(pairs.premises, pairs.hypotheses, pairs.all),
              testing::Pointwise(testing::FloatNear(.03F), pairs.expected));
}

TEST(PairScorer, OrderBatchesAndThreadsChangeNothing) {
  const PairScorer one = scorer("auto"), many = scorer("auto", 3, 64);
  Pairs pairs(one);
  std::vector<float> forward = one.entailment(pairs.premises, pairs.hypotheses, pairs.all);
  std::ranges::reverse(pairs.all);
  const std::vector<float> backward = many.entailment(pairs.premises, pairs.hypotheses, pairs.all);
  std::ranges::reverse(forward);
  EXPECT_EQ(forward, backward);
}

TEST(PairScorer, FolderWithoutTheLabelEntailmentIsRefused) {
  const fs::path folder = fs::temp_directory_path() / ("gpuhpc-nli-" + std::to_string(::getpid()));
  fs::copy(kFolder, folder);
  nlohmann::json config;
  std::ifstream(kFolder / "config.json") >> config;
  config["id2label"]["2"] = "yes";
  config["label2id"] = {{"contradiction", 0}, {"neutral", 1}, {"yes", 2}};
  std::ofstream(folder / "config.json") << config;
  try {
    PairScorer(folder, {}, {});
    ADD_FAILURE() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_THAT(error.what(), testing::HasSubstr("entailment"));
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace gpuhpc
