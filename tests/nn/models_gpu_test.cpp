// Models with an attention of their own on a GPU, against transformers' figures: MPNet, ModernBERT,
// also as a masked-language model, DeBERTa, T5.
#include <gpuhpc/nn/folder.hpp>
#include <gpuhpc/nn/masked_language_model.hpp>
#include <gpuhpc/nn/sequence_classifier.hpp>
#include <gpuhpc/nn/t5.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "../gpu.hpp"
#include "fixture.hpp"

namespace gpuhpc {
namespace {

PackedTokens batch_on_gpu(const SafeTensors& file, const std::string& prefix,
                          bool segments = false) {
  return pack_tokens(
      read_ints(file, prefix + "ids"),
      read_ints(file, prefix == "token_" ? std::string("offsets") : prefix + "offsets"), gpu(),
      segments ? read_ints(file, "segment_ids") : std::vector<std::int32_t>{});
}

// fp32 sums in another order; 16 bits round every product.
const std::vector<std::pair<at::ScalarType, double>> kPrecisions = {
    {at::kFloat, 1e-4}, {at::kBFloat16, 4e-2}, {at::kHalf, 6e-3}};

struct Gradient {
  std::string name;
  at::Tensor ours, wanted;
};

// fp32 on both sides. A key bias has gradient 0 up to rounding, since softmax does not change when
// all scores shift: what is asked of a parameter is never less than a millionth of the largest
// gradient.
void expect_equal(const std::vector<Gradient>& gradients, const std::string& model) {
  const auto largest = [](const at::Tensor& values) { return values.abs().max().item<double>(); };
  double all = 0;
  for (const Gradient& gradient : gradients) all = std::max(all, largest(gradient.wanted));
  EXPECT_GT(all, 0) << model;
  for (const Gradient& gradient : gradients) {
    ASSERT_TRUE(gradient.ours.defined()) << model << " " << gradient.name;
    EXPECT_LE(largest_difference(gradient.ours.to_dense().to(at::kCPU), gradient.wanted),
              1e-3 * largest(gradient.wanted) + 1e-6 * all)
        << model << " " << gradient.name;
  }
}

// Those of the parameters whose gradient the file holds.
void add_gradients(const std::vector<NamedParameter>& parameters, const SafeTensors& expected,
                   std::vector<Gradient>& gradients) {
  for (const NamedParameter& parameter : parameters)
    if (expected.find("gradient." + parameter.name) != nullptr)
      gradients.push_back({parameter.name, parameter.value.grad(),
                           read_floats(expected, "gradient." + parameter.name)});
}

void expect_transformers_figures(const std::string& name) {
  const SafeTensors expected(fixture_path(name + "_expected.safetensors"));
  LoadedEncoder loaded = load_encoder(fixture_path(name), gpu());
  const PackedTokens batch = batch_on_gpu(expected, "token_");
  {
    const c10::NoGradGuard no_grad;
    for (const auto& [compute, bound] : kPrecisions)
      EXPECT_LE(distance(loaded.encoder.forward(batch, computing_in(compute)),
                         read_floats(expected, "hidden")),
                bound)
          << name << " " << compute;
  }
  loaded.encoder.train_top_layers(-1);
  const at::Tensor rows = loaded.encoder.embed(batch, {Pooling::mean, true, 24});
  (rows * read_floats(expected, "loss_weights").to(gpu())).sum().backward();
  std::vector<Gradient> gradients;
  add_gradients(loaded.encoder.parameters(), expected, gradients);
  EXPECT_GT(gradients.size(), 0U);
  expect_equal(gradients, name);
}

TEST(MpnetOnGpu, VectorsAndGradientsEqualTransformers) {
  for (const char* name : {"tiny_mpnet", "tiny_mpnet_narrow"}) expect_transformers_figures(name);
}

TEST(ModernOnGpu, VectorsAndGradientsEqualTransformers) {
  expect_transformers_figures("tiny_modern");
}

// A step of pretraining: the loss at masked places, back through head and encoder.
TEST(MaskedLanguageOnGpu, LossAndGradientsEqualTransformers) {
  const SafeTensors expected(fixture_path("masked_modern_expected.safetensors"));
  MaskedLanguageModel model = MaskedLanguageModel::load(fixture_path("masked_modern"), 5, gpu());
  EXPECT_FALSE(model.new_head);
  model.base.encoder.train_top_layers(-1);
  const PackedTokens batch = batch_on_gpu(expected, "token_");
  const auto integers = [&](const char* name) {
    const std::vector<std::int32_t> values = read_ints(expected, name);
    return std::vector<std::int64_t>(values.begin(), values.end());
  };
  const std::vector<std::int64_t> places = integers("places"), targets = integers("targets");
  const double wanted = read_floats(expected, "loss").item<double>();
  for (const auto& [compute, bound] : kPrecisions) {
    EXPECT_LE(distance(model.logits(batch, places, computing_in(compute)),
                       read_floats(expected, "logits")),
              bound)
        << compute;
    EXPECT_NEAR(model.loss(batch, places, targets, computing_in(compute)).item<double>() / wanted,
                1, bound)
        << compute;
  }
  model.loss(batch, places, targets).backward();
  std::vector<Gradient> gradients;
  add_gradients(model.base.encoder.parameters(), expected, gradients);
  add_gradients(model.head.parameters(), expected, gradients);
  EXPECT_EQ(gradients.size(), 3U + 5 + 6 + 3);
  expect_equal(gradients, "masked_modern");
}

TEST(DebertaOnGpu, LogitsEqualTransformers) {
  const c10::NoGradGuard no_grad;
  for (const std::string name : {"cross_deberta", "cross_deberta_v2", "cross_deberta_v3"}) {
    const SafeTensors expected(fixture_path(name + "_expected.safetensors"));
    const SequenceClassifier classifier = SequenceClassifier::load(fixture_path(name), gpu());
    const PackedTokens batch =
        batch_on_gpu(expected, "token_", expected.find("segment_ids") != nullptr);
    for (const auto& [compute, bound] : kPrecisions)
      EXPECT_LE(distance(classifier.logits(batch, computing_in(compute)),
                         read_floats(expected, "logits")),
                bound)
          << name << " " << compute;
  }
}

// Everything learns; encoder first.
std::vector<NamedParameter> learn_everything(SequenceClassifier& classifier) {
  classifier.encoder().train_top_layers(-1);
  std::vector<NamedParameter> all = classifier.encoder().parameters();
  for (const NamedParameter& parameter : classifier.head().parameters()) {
    parameter.value.set_requires_grad(true);
    all.push_back(parameter);
  }
  return all;
}

TEST(DebertaOnGpu, GradientsAreTheProcessors) {
  for (const std::string name : {"cross_deberta", "cross_deberta_v2", "cross_deberta_v3"}) {
    const SafeTensors expected(fixture_path(name + "_expected.safetensors"));
    const bool segments = expected.find("segment_ids") != nullptr;
    SequenceClassifier here = SequenceClassifier::load(fixture_path(name)),
                       there = SequenceClassifier::load(fixture_path(name), gpu());
    const std::vector<NamedParameter> wanted = learn_everything(here),
                                      ours = learn_everything(there);
    here.logits(read_batch(expected, segments)).sum().backward();
    there.logits(batch_on_gpu(expected, "token_", segments)).sum().backward();
    std::vector<Gradient> gradients;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const at::Tensor gradient = wanted[i].value.grad();
      ASSERT_EQ(gradient.defined(), ours[i].value.grad().defined()) << name << wanted[i].name;
      if (gradient.defined())
        gradients.push_back({wanted[i].name, ours[i].value.grad(), gradient.to_dense()});
    }
    expect_equal(gradients, name);
  }
}

TEST(T5OnGpu, LossesAndGradientsEqualTransformers) {
  for (const std::string name : {"t5_plain", "t5_gated", "t5_multilingual"}) {
    const SafeTensors expected(fixture_path(name + "_expected.safetensors"));
    T5 model = load_t5(fixture_path(name), gpu()).model;
    const PackedTokens source = batch_on_gpu(expected, "source_"),
                       target = batch_on_gpu(expected, "target_");
    const double wanted = read_floats(expected, "loss").item<double>();
    for (const auto& [compute, bound] : kPrecisions)
      EXPECT_NEAR(model.loss(source, target, 0, computing_in(compute)).item<double>() / wanted, 1,
                  bound)
          << name << " " << compute;
    model.learn_everything();
    model.loss(source, target, .13).backward();
    for (const NamedParameter& parameter : model.parameters())
      EXPECT_LE(distance(parameter.value.grad().to_dense(),
                         read_floats(expected, "gradient." + parameter.name)),
                1e-3)
          << name << " " << parameter.name;
  }
}

}  // namespace
}  // namespace gpuhpc
