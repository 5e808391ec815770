// Masked-language models against transformers.
#include <gpuhpc/nn/masked_language_model.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "fixture.hpp"

namespace gpuhpc {
namespace {

class MaskedLanguage : public ::testing::TestWithParam<const char*> {
 protected:
  std::string name = GetParam();
  SafeTensors expected{fixture_path(name + "_expected.safetensors")};
  MaskedLanguageModel model = MaskedLanguageModel::load(fixture_path(name), 5, at::kCPU);
  PackedTokens batch = read_batch(expected);
  std::vector<std::int64_t> integers(const std::string& tensor) const {
    const std::vector<std::int32_t> values = read_ints(expected, tensor);
    return {values.begin(), values.end()};
  }
};

TEST_P(MaskedLanguage, LogitsLossAndGradientsEqualTransformers) {
  EXPECT_FALSE(model.new_head);
  model.base.encoder.train_top_layers(-1);
  EXPECT_LE(
      largest_difference(model.logits(batch, integers("places")), read_floats(expected, "logits")),
      1e-5);
  const at::Tensor loss = model.loss(batch, integers("places"), integers("targets"));
  EXPECT_NEAR(loss.item<double>(), read_floats(expected, "loss").item<double>(), 1e-5);
  loss.backward();
  std::size_t compared = 0;
  for (const auto& parameters : {model.base.encoder.parameters(), model.head.parameters()})
    for (const NamedParameter& parameter : parameters) {
      ASSERT_TRUE(parameter.value.grad().defined()) << parameter.name;
      const at::Tensor wanted = read_floats(expected, "gradient." + parameter.name);
      EXPECT_LE(largest_difference(parameter.value.grad(), wanted),
                1e-5 + 1e-5 * wanted.abs().max().item<double>())
          << parameter.name;
      ++compared;
    }
  EXPECT_GE(compared, model.base.encoder.config().modern ? 3U + 5 + 6 + 3 : 4U + 2 * 16 + 5);
}

std::set<std::string> names_without_decoder(const std::filesystem::path& folder) {
  const SafeTensors file(folder / "model.safetensors");
  std::set<std::string> names;
  for (const TensorView& tensor : file.tensors())
    if (tensor.name.find("decoder") == std::string::npos)  // the word embeddings once more
      names.insert(tensor.name);
  return names;
}

TEST_P(MaskedLanguage, IsSavedUnderTransformersNames) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("gpuhpc-{}-{}", name, getpid());
  model.save(folder);
  EXPECT_EQ(names_without_decoder(folder), names_without_decoder(fixture_path(name)));
  const MaskedLanguageModel again = MaskedLanguageModel::load(folder, 6, at::kCPU);
  EXPECT_FALSE(again.new_head);
  EXPECT_EQ(largest_difference(again.logits(batch, integers("places")),
                               model.logits(batch, integers("places"))),
            0);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Families, MaskedLanguage,
                         ::testing::Values("masked_bert", "masked_roberta", "masked_mpnet",
                                           "masked_modern"));

TEST(NewMaskedLanguageHead, IsDrawnWhereTheFolderHasNone) {
  const auto model = MaskedLanguageModel::load(fixture_path("tiny_bert"), 5, at::kCPU);
  EXPECT_TRUE(model.new_head);
  const auto& parameters = model.head.parameters();
  EXPECT_NEAR(parameters[0].value.std().item<double>(), .02, .002);  // of 32 x 32
  EXPECT_EQ(parameters[2].value.min().item<double>(), 1);
  EXPECT_EQ(parameters[4].value.abs().max().item<double>(), 0);
  const auto same = MaskedLanguageModel::load(fixture_path("tiny_bert"), 5, at::kCPU),
             other = MaskedLanguageModel::load(fixture_path("tiny_bert"), 6, at::kCPU);
  EXPECT_EQ(largest_difference(parameters[0].value, same.head.parameters()[0].value), 0);
  EXPECT_GT(largest_difference(parameters[0].value, other.head.parameters()[0].value), .01);
}

}  // namespace
}  // namespace gpuhpc
