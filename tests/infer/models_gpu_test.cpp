// A cross-encoder and a T5 that writes, on a GPU against transformers' scores and texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/infer/generate.hpp"
#include "gpuhpc/infer/pair_scorer.hpp"
#include "gpuhpc/io/safetensors.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

TEST(PairScorerOnGpu, EntailmentIsThatOfTransformers) {
  nlohmann::json json;
  std::ifstream(GPUHPC_FIXTURES "/pairs.json") >> json;
  for (const auto& [precision, bound] :
       {std::pair{"fp32", 1e-4F}, {"tf32", 1e-3F}, {"bf16", .03F}, {"fp16", .01F}}) {
    InferOptions options;
    options.precision = precision;
    const PairScorer scorer(fs::path(GPUHPC_FIXTURES) / "nli", PairScore::entailment, options,
                            {true, 0, 1});
    const auto ids = [&](const char* name) {
      return tokenize(scorer.tokenizer(), json[name].get<std::vector<std::string>>(), 1);
    };
    const std::vector<TokenIds> premises = ids("premises"), hypotheses = ids("hypotheses");
    std::vector<TextPair> pairs;
    for (std::int64_t p = 0; p < std::ssize(premises); ++p)
      for (std::int64_t h = 0; h < std::ssize(hypotheses); ++h) pairs.push_back({p, h});
    EXPECT_THAT(
        scorer.scores(premises, hypotheses, pairs),
        testing::Pointwise(testing::FloatNear(bound), json["entailment"].get<std::vector<float>>()))
        << precision;
  }
}

std::vector<TokenList> read_lists(const SafeTensors& file, const std::string& name) {
  const auto ints = [&](const std::string& part) {
    const TensorView* const view = file.find(name + part);
    if (view == nullptr) throw std::runtime_error("fixture lacks " + name + part);
    TokenList values(static_cast<std::size_t>(view->count()));
    std::memcpy(values.data(), view->data.data(), view->data.size());
    return values;
  };
  const TokenList ids = ints("_ids"), offsets = ints("_offsets");
  std::vector<TokenList> lists;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
    lists.emplace_back(ids.begin() + offsets[i], ids.begin() + offsets[i + 1]);
  return lists;
}

TEST(GenerationOnGpu, GreedyTextsAreThoseOfTransformers) {
  const SafeTensors expected("tests/nn/fixtures/t5_generated.safetensors");
  const T5 model = load_t5("tests/nn/fixtures/t5_talker", {at::kCUDA, 0}).model;
  std::vector<TokenList> sources = read_lists(expected, "source"),
                         wanted = read_lists(expected, "greedy");
  for (TokenList& source : sources) source.pop_back();  // the end's token, which the form has
  InferOptions infer;
  infer.precision = "fp32", infer.token_budget = 300;
  const T5Generator generator(model, {{}, {1}}, 64, {.beams = 1, .max_length = 20}, infer,
                              {true, 0, 1});
  const auto found =
      generator.generate_together(token_source(sources), 0, *make_single_communicator());
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].back() == 1) wanted[i].pop_back();
    EXPECT_EQ(found[i], wanted[i]) << i;
  }
}

}  // namespace
}  // namespace gpuhpc
