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
  return {kFolder, PairScore::entailment, options, {.cuda = false, .index = 0, .threads = threads}};
}

TEST(PairScorer, EntailmentIsThatOfTransformers) {
  const PairScorer fp32 = scorer("fp32");
  const Pairs pairs(fp32);
  EXPECT_THAT(fp32.scores(pairs.premises, pairs.hypotheses, pairs.all),
              testing::Pointwise(testing::FloatNear(1e-5F), pairs.expected));
  EXPECT_THAT(scorer("tf32").scores(pairs.premises, pairs.hypotheses, pairs.all),
              testing::Pointwise(testing::FloatNear(1e-4F), pairs.expected));
  EXPECT_THAT(scorer("auto").scores(pairs.premises, pairs.hypotheses, pairs.all),
              testing::Pointwise(testing::FloatNear(.03F), pairs.expected));
}

TEST(PairScorer, OrderBatchesAndThreadsChangeNothing) {
  const PairScorer one = scorer("auto"), many = scorer("auto", 3, 64);
  Pairs pairs(one);
  std::vector<float> forward = one.scores(pairs.premises, pairs.hypotheses, pairs.all);
  std::ranges::reverse(pairs.all);
  const std::vector<float> backward = many.scores(pairs.premises, pairs.hypotheses, pairs.all);
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
    PairScorer(folder, PairScore::entailment, {}, {});
    ADD_FAILURE() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_THAT(error.what(), testing::HasSubstr("entailment"));
  }
  fs::remove_all(folder);
}

// data_tools/fixtures/make_pairs.py: a ranking model, pairs of all lengths against each other.
TEST(PairScorer, RelevanceIsThatOfSentenceTransformers) {
  nlohmann::json json;
  std::ifstream(GPUHPC_FIXTURES "/relevance.json") >> json;
  const fs::path folder = fs::path(GPUHPC_FIXTURES) / "ranker";
  InferOptions options;
  options.precision = "fp32";
  const PairScorer ranker(folder, PairScore::relevance, options, {});
  const auto texts = json.at("texts").get<std::vector<std::string>>();
  const std::vector<TokenIds> ids = tokenize(ranker.tokenizer(), texts, 1);
  std::vector<TextPair> pairs;
  for (std::int64_t a = 0; a < std::ssize(ids); ++a)
    for (std::int64_t b = 0; b < std::ssize(ids); ++b) pairs.push_back({a, b});
  EXPECT_THAT(
      ranker.scores(ids, ids, pairs),
      testing::Pointwise(testing::FloatNear(1e-5F), json.at("sigmoid").get<std::vector<float>>()));
  const fs::path copy = fs::temp_directory_path() / ("gpuhpc-ranker-" + std::to_string(::getpid()));
  fs::copy(folder, copy);
  const auto with_activation = [&](const std::string& name) {
    nlohmann::json config;
    std::ifstream(folder / "config.json") >> config;
    config["sbert_ce_default_activation_function"] = nullptr;  // says nothing
    config["sentence_transformers"]["activation_fn"] = "torch.nn.modules." + name;
    std::ofstream(copy / "config.json") << config;
    return PairScorer(copy, PairScore::relevance, options, {});
  };
  EXPECT_THAT(
      with_activation("linear.Identity").scores(ids, ids, pairs),
      testing::Pointwise(testing::FloatNear(3e-5F), json.at("identity").get<std::vector<float>>()));
  EXPECT_THROW(with_activation("activation.Tanh"), Error);
  EXPECT_THROW(PairScorer(kFolder, PairScore::relevance, options, {}), Error);
  fs::remove_all(copy);
}

}  // namespace
}  // namespace gpuhpc
