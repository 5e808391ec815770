// Generated texts against transformers' generate(): data_tools/fixtures/make_t5.py.
#include "gpuhpc/infer/generate.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/io/safetensors.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

const fs::path fixtures = "tests/nn/fixtures";

// Tensors this small only wait for each other on two threads.
const bool one_thread = (at::set_num_threads(1), true);

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

class Generation : public ::testing::Test {
 protected:
  Generation() {
    for (TokenList& source : sources) source.pop_back();  // the end's token, which the form has
    infer.precision = "fp32";
    infer.token_budget = 300;
  }
  std::vector<TokenList> generate(const GenerateOptions& how) const {
    const T5Generator generator(model, {{}, {1}}, 64, how, infer, device);
    return generator.generate_together(token_source(sources), 0, *make_single_communicator());
  }
  void expect(const std::string& name, const GenerateOptions& how) const {
    std::vector<TokenList> wanted = read_lists(expected, name), found = generate(how);
    ASSERT_EQ(found.size(), 200U);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].back() == 1) wanted[i].pop_back();
      EXPECT_EQ(found[i], wanted[i]) << name << " " << i;
    }
  }

  const T5 model = load_t5(fixtures / "t5_talker").model;
  const SafeTensors expected{fixtures / "t5_generated.safetensors"};
  std::vector<TokenList> sources = read_lists(expected, "source");
  InferOptions infer;
  DeviceChoice device;
  GenerateOptions options{.beams = 1, .max_length = 20};
};

TEST_F(Generation, Int8IsRefused) {
  infer.precision = "int8";
  infer.kernels = "auto";
  EXPECT_THROW(T5Generator(model, {{}, {1}}, 64, options, infer, device), Error);
}

TEST_F(Generation, GreedyTextsAreThoseOfTransformers) {
  expect("greedy", options);
  options.repetition_penalty = 1.7, options.no_repeat_ngram = 2, options.min_length = 5;
  expect("greedy_rules", options);
}

TEST_F(Generation, BeamsAreThoseOfTransformers) {
  options.beams = 3;
  expect("beam", options);
  options.early_stopping = "true", options.length_penalty = .6;
  expect("beam_early", options);
  options.beams = 4, options.early_stopping = "never", options.length_penalty = 2;
  options.no_repeat_ngram = 3, options.repetition_penalty = 1.2, options.min_length = 3;
  expect("beam_never", options);
}

// T5 v1.0: relu, the word table as a scaled head; v1.1: gated, a head of its own.
TEST(GenerationOfVersions, IsThatOfTransformers) {
  const SafeTensors expected{fixtures / "t5_generated_versions.safetensors"};
  InferOptions infer;
  infer.precision = "fp32";
  for (const std::string version : {"v10", "v11"}) {
    const T5 model = load_t5(fixtures / ("t5_talker_" + version)).model;
    EXPECT_EQ(model.config().tied_head && model.config().scaled_head, version == "v10");
    std::vector<TokenList> sources = read_lists(expected, version + "_source");
    ASSERT_EQ(sources.size(), 40U);
    for (TokenList& source : sources) source.pop_back();
    for (const auto& [name, beams] : {std::pair{"_greedy", 1}, {"_beam", 3}}) {
      GenerateOptions how{.beams = beams, .max_length = 20};
      const T5Generator generator(model, {{}, {1}}, 64, how, infer, {});
      std::vector<TokenList> wanted = read_lists(expected, version + name);
      for (TokenList& text : wanted)
        if (text.back() == 1) text.pop_back();
      EXPECT_EQ(generator.generate_together(token_source(sources), 0, *make_single_communicator()),
                wanted)
          << version << name;
    }
  }
}

// A GPU's way, on the processor. There a text takes room for all that it may get from its start on:
// 10 tokens of the source and 3 beams of 20 are 70 of the 300.
TEST_F(Generation, OnAGpuWhatMayBeWrittenCountsInTheBudget) {
  device.cuda = true;
  expect("greedy", options);
  sources.assign(12, TokenList(9, 5));
  std::vector<std::int64_t> together;  // sources that are read between two that are done
  std::int64_t read = 0;
  TokenSource watched = token_source(sources);
  watched.tokens = [&, plain = watched.tokens](std::int64_t document) {
    ++read;
    return plain(document);
  };
  const T5Generator generator(model, {{}, {1}}, 64, {.beams = 3, .max_length = 20}, infer, device);
  generator.generate_together(watched, 0, *make_single_communicator(), [&](std::int64_t) {
    if (read > 0) together.push_back(std::exchange(read, 0));
  });
  EXPECT_EQ(together, (std::vector<std::int64_t>{12 + 4, 4, 4}));  // first the lengths
}

// The first token of many texts from one source follows the softmax of the model's scores.
TEST_F(Generation, DrawsFollowTheProbabilitiesThatTemperatureTopKAndTopPLeave) {
  sources.assign(4000, sources[3]);
  options.max_length = 1, options.sample = true, options.temperature = 5;
  options.top_k = 9, options.top_p = .85;
  std::map<std::int32_t, double> drawn;
  for (const TokenList& text : generate(options)) drawn[text.empty() ? 1 : text[0]] += 1;

  PackedIds source;
  source.add(0, sources[3], {{}, {1}});
  const PackedTokens packed = pack_tokens(source, at::kCPU),
                     start = pack_tokens(TokenList{0}, TokenList{0, 1}, at::kCPU);
  const at::Tensor scores = model.logits(start, model.encode(packed), packed);
  std::vector<std::pair<double, std::int32_t>> shares;
  for (std::int32_t id = 0; id < 61; ++id)
    shares.emplace_back(std::exp(scores[0][id].item<double>() / 5), id);
  std::ranges::sort(shares, std::greater<>());
  shares.resize(9);
  double all = 0, sum = 0;
  for (const auto& [share, id] : shares) all += share;
  std::size_t kept = 0;
  while (sum < .85 * all) sum += shares[kept++].first;
  ASSERT_GT(kept, 2U);
  EXPECT_EQ(drawn.size(), kept);
  for (std::size_t i = 0; i < kept; ++i) {
    const double share = shares[i].first / sum;
    EXPECT_NEAR(drawn[shares[i].second] / 4000, share, 5 * std::sqrt(share * (1 - share) / 4000));
  }
}

TEST_F(Generation, DrawsDependOnTheDocumentsNumberAlone) {
  options.sample = true, options.temperature = 2;
  const std::vector<TokenList> whole = generate(options);
  infer.token_budget = 40, device.threads = 3;
  EXPECT_EQ(generate(options), whole);
  const T5Generator generator(model, {{}, {1}}, 64, options, infer, device);
  const std::vector<TokenList> last(sources.begin() + 150, sources.end());
  const auto texts =
      generator.generate_together(token_source(last), 150, *make_single_communicator());
  EXPECT_TRUE(std::equal(texts.begin(), texts.end(), whole.begin() + 150, whole.end()));
  options.seed = 43;
  EXPECT_NE(generate(options), whole);
}

}  // namespace
}  // namespace gpuhpc
