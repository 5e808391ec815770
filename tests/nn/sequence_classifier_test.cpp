// Sequence classifiers of every family against transformers: logits, gradients, the packed forward
// of processors; labels and refusals.
#include <gpuhpc/base/error.hpp>
#include <gpuhpc/io/atomic_file.hpp>
#include <gpuhpc/io/json.hpp>
#include <gpuhpc/io/safetensors.hpp>
#include <gpuhpc/nn/folder.hpp>
#include <gpuhpc/nn/sequence_classifier.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/std.h>
#include <ATen/ops/sum.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <functional>

#include "fixture.hpp"

namespace gpuhpc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Those of the levels that this machine has.
std::vector<kernels::Isa> levels(std::vector<kernels::Isa> all) {
  std::erase_if(all, [](kernels::Isa isa) { return !kernels::supported(isa); });
  return all;
}

class CrossEncoder : public ::testing::TestWithParam<const char*> {
 protected:
  std::string name = GetParam();
  SafeTensors expected{fixture_path(name + "_expected.safetensors")};
  SequenceClassifier classifier = SequenceClassifier::load(fixture_path(name));
  std::vector<std::int32_t> ids = read_ints(expected, "token_ids"),
                            offsets = read_ints(expected, "offsets");
  std::vector<std::int32_t> segments = expected.find("segment_ids") != nullptr
                                           ? read_ints(expected, "segment_ids")
                                           : std::vector<std::int32_t>{};
  PackedTokens batch = pack_tokens(ids, offsets, at::kCPU, segments);
  at::Tensor wanted = read_floats(expected, "logits");

  void learn() {
    classifier.encoder().train_top_layers(-1);
    for (const NamedParameter& parameter : classifier.head().parameters())
      parameter.value.set_requires_grad(true);
  }
  std::vector<NamedParameter> parameters() const {
    std::vector<NamedParameter> all = classifier.encoder().parameters();
    all.insert(all.end(), classifier.head().parameters().begin(),
               classifier.head().parameters().end());
    return all;
  }
  void backward(const ForwardOptions& options = {}) {
    for (const NamedParameter& parameter : parameters())
      parameter.value.mutable_grad() = at::Tensor();
    (classifier.logits(batch, options) * read_floats(expected, "loss_weights")).sum().backward();
  }
  at::Tensor packed_logits(CpuPrecision precision, kernels::Isa isa) const {
    const CpuClassifier packed(classifier, precision, isa);
    const at::Tensor result = at::zeros_like(wanted);
    const auto workspace = packed.make_workspace();
    packed.logits(*workspace, {ids, segments, offsets, {}},
                  {result.mutable_data_ptr<float>(), result.size(0), result.size(1)});
    return result;
  }
};

TEST_P(CrossEncoder, LogitsEqualTransformers) {
  EXPECT_LE(largest_difference(classifier.logits(batch), wanted), 1e-5);
  EXPECT_EQ(classifier.parameter_count(), read_ints(expected, "parameters")[0]);
}

TEST_P(CrossEncoder, PackedForwardEqualsTransformers) {
  for (const kernels::Isa isa :
       levels({kernels::Isa::generic, kernels::Isa::avx2, kernels::Isa::avx512}))
    EXPECT_LE(largest_difference(packed_logits(CpuPrecision::fp32, isa), wanted), 1e-5)
        << to_string(isa);
  for (const kernels::Isa isa : levels({kernels::Isa::generic, kernels::Isa::amx}))
    EXPECT_LE(largest_difference(packed_logits(CpuPrecision::tf32, isa), wanted), 1e-4)
        << to_string(isa);
  const double scale = wanted.abs().max().item<double>();
  for (const kernels::Isa isa :
       levels({kernels::Isa::generic, kernels::Isa::avx512_bf16, kernels::Isa::amx}))
    for (const auto& [precision, share] :
         {std::pair{CpuPrecision::bf16, 0.04}, {CpuPrecision::int8, 0.08}})
      EXPECT_LE(largest_difference(packed_logits(precision, isa), wanted), share * scale)
          << to_string(precision) << " on " << to_string(isa);
}

TEST_P(CrossEncoder, SavedItIsTheSameModelUnderTransformersNames) {
  const fs::path folder =
      fs::temp_directory_path() / ("gpuhpc_cross_" + std::to_string(::getpid()));
  save_classifier_folder(folder, classifier.encoder(), classifier.head().parameters(),
                         classifier.labels(), classifier.model());
  const SequenceClassifier again = SequenceClassifier::load(folder);
  EXPECT_TRUE(at::equal(again.logits(batch), classifier.logits(batch)));
  EXPECT_EQ(again.labels(), classifier.labels());
  EXPECT_EQ(read_json(folder / "config.json").at("architectures"),
            read_json(fixture_path(name) / "config.json").at("architectures"));
  const std::vector<std::string> known =
      ModelWeights(fixture_path(name))
          .names();  // load() has refused a folder that lacks any of them
  for (const std::string& tensor : ModelWeights(folder).names())
    EXPECT_THAT(known, ::testing::Contains(tensor));
  fs::remove_all(folder);
}

TEST_P(CrossEncoder, NewHeadIsDrawnBySeed) {
  const EncoderConfig& encoder = classifier.encoder().config();
  const auto drawn = [&](std::uint64_t seed) {
    return ClassificationHead(new_classifier_config(encoder, {"a", "b"}), encoder, seed, at::kCPU);
  };
  const ClassificationHead head = drawn(1);
  ASSERT_EQ(head.parameters().size(), classifier.head().parameters().size());
  for (std::size_t i = 0; i < head.parameters().size(); ++i) {
    const at::Tensor& values = head.parameters()[i].value;
    EXPECT_EQ(head.parameters()[i].name, classifier.head().parameters()[i].name);
    EXPECT_TRUE(values.requires_grad());
    EXPECT_TRUE(at::equal(values, drawn(1).parameters()[i].value));
    EXPECT_EQ(at::equal(values, drawn(2).parameters()[i].value),
              values.dim() == 1);  // biases are 0
  }
  EXPECT_NEAR(head.parameters()[0].value.std().item<double>(), .02, .004);
}

TEST_P(CrossEncoder, GradientsEqualPyTorch) {
  learn();
  backward();
  std::size_t compared = 0;
  for (const NamedParameter& parameter : parameters()) {
    ASSERT_TRUE(parameter.value.grad().defined() ||
                parameter.name == "embeddings.position_embeddings.weight")
        << parameter.name;
    const TensorView* view = expected.find("gradient." + parameter.name);
    if (view == nullptr) continue;
    at::Tensor gradient = read_floats(expected, "gradient." + parameter.name);
    const EncoderConfig& config = classifier.encoder().config();
    if (parameter.name.ends_with(
            "in_proj.weight"))  // the file's order: heads, each with its query, key and value
      gradient = gradient.view({config.heads, 3, config.head_size(), config.hidden_size})
                     .transpose(0, 1)
                     .reshape(gradient.sizes());
    EXPECT_LE(largest_difference(parameter.value.grad(), gradient),
              2e-5 * (1 + gradient.abs().max().item<double>()))
        << parameter.name;
    ++compared;
  }
  EXPECT_GE(compared, 12U);
}

TEST_P(CrossEncoder, CheckpointedLayersGiveTheSameGradients) {
  learn();
  ForwardOptions options;
  options.plain_layers = true;
  options.generator = make_generator(at::kCPU, 1);
  backward(options);
  std::vector<at::Tensor> plain;
  for (const NamedParameter& parameter : parameters())
    plain.push_back(parameter.value.grad().clone());
  options.checkpoint_layers = true;
  backward(options);
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_LE(largest_difference(parameters()[i].value.grad(), plain[i]), 1e-5)
        << parameters()[i].name;
}

TEST_P(CrossEncoder, DropoutIsSeededAndReachesTheHead) {
  const auto run = [&](std::uint64_t seed) {
    ForwardOptions options;
    options.hidden_dropout = options.attention_dropout = 0.1;
    options.generator = make_generator(at::kCPU, seed);
    return classifier.logits(batch, options);
  };
  EXPECT_TRUE(at::equal(run(3), run(3)));
  EXPECT_GT(largest_difference(run(3), run(4)), 1e-3);
  ForwardOptions heavy;
  heavy.hidden_dropout = 0.99;
  heavy.generator = make_generator(at::kCPU, 5);
  const at::Tensor first_tokens = classifier.encoder().first_tokens(batch);
  EXPECT_GT(largest_difference(classifier.head().logits(first_tokens, heavy), wanted), 1e-2);
}

TEST_P(CrossEncoder, NeighboursDoNotMatter) {
  for (const CpuPrecision precision :
       {CpuPrecision::fp32, CpuPrecision::tf32, CpuPrecision::bf16, CpuPrecision::int8}) {
    const CpuClassifier packed(classifier, precision);
    const auto workspace = packed.make_workspace();
    Matrix together(batch.documents(), packed.labels()), alone(1, packed.labels());
    packed.logits(*workspace, {ids, segments, offsets, {}}, together.view());
    for (std::int64_t b = batch.documents() - 1; b >= 0; --b) {
      const auto own = [&](const std::vector<std::int32_t>& all) {
        const std::int32_t* of = offsets.data() + b;
        return all.empty() ? all : std::vector(all.begin() + of[0], all.begin() + of[1]);
      };
      const auto length = static_cast<std::int32_t>(std::ssize(own(ids)));
      packed.logits(*workspace, {own(ids), own(segments), {0, length}, {}}, alone.view());
      for (std::int64_t c = 0; c < packed.labels(); ++c)
        EXPECT_EQ(alone.row(0)[static_cast<std::size_t>(c)],
                  together.row(b)[static_cast<std::size_t>(c)])
            << b;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CrossEncoder,
                         ::testing::Values("cross_bert", "cross_roberta", "cross_deberta",
                                           "cross_deberta_v3", "cross_deberta_v2"),
                         [](const auto& which) { return std::string(which.param); });

TEST(RelativeAttention, FarDistancesShareRows) {
  const RelativeAttention plain{.farthest = 4};
  EXPECT_EQ(plain.rows(), 8);
  EXPECT_EQ(plain.row(0), 4);
  EXPECT_EQ(plain.row(3), 7);
  EXPECT_EQ(plain.row(9), 7);
  EXPECT_EQ(plain.row(-9), 0);
  const RelativeAttention v3{
      .farthest = 512,
      .buckets = 256};  // of make_log_bucket_position(..., 256, 512) in transformers
  EXPECT_EQ(v3.rows(), 512);
  for (const auto& [distance, row] : {std::pair<std::int64_t, std::int64_t>{0, 256},
                                      {128, 384},
                                      {-128, 128},
                                      {129, 385},
                                      {200, 425},
                                      {-200, 87},
                                      {300, 463},
                                      {511, 511},
                                      {-511, 1},
                                      {-700, 0}})
    EXPECT_EQ(v3.row(distance), row) << distance;
}

class ClassifierFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    root = fs::temp_directory_path() / ("gpuhpc_nn_classifier_" + std::to_string(::getpid()));
    fs::remove_all(root);
    fs::create_directories(root);
    use("cross_deberta");
  }
  void TearDown() override { fs::remove_all(root); }
  void use(const std::string& name) {
    fs::copy(fixture_path(name), root / name, fs::copy_options::recursive);
    model = root / name;
  }
  void set(const std::string& key, const Json& value) {
    Json json = read_json(model / "config.json");
    if (value.is_null())
      json.erase(key);
    else
      json[key] = value;
    write_json(model / "config.json", json);
  }
  void rewrite(const std::function<void(std::vector<TensorView>&)>& change) {
    {
      const SafeTensors source(model / "model.safetensors");
      std::vector<TensorView> tensors = source.tensors();
      change(tensors);
      write_safetensors(root / "changed.safetensors", tensors);
    }
    fs::rename(root / "changed.safetensors", model / "model.safetensors");
  }
  std::string refusal(bool entailment = false) const {
    try {
      const SequenceClassifier classifier = SequenceClassifier::load(model);
      if (entailment) return std::to_string(classifier.entailment_label());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data) << error.what();
      return error.what();
    }
    return "(accepted)";
  }
  fs::path root, model;
};

TEST_F(ClassifierFolder, EntailmentIsFoundInAnyCase) {
  EXPECT_EQ(SequenceClassifier::load(fixture_path("cross_bert")).entailment_label(), 0);
  EXPECT_EQ(SequenceClassifier::load(fixture_path("cross_deberta_v3")).entailment_label(), 0);
  EXPECT_EQ(refusal(true), "2");
  set("id2label", nullptr);
  EXPECT_EQ(refusal(true), "2");
  set("label2id", {{"Entailment", 1}, {"neutral", 0}, {"contradiction", 2}});
  EXPECT_EQ(refusal(true), "1");
  set("id2label", {{"0", "Entailment"}, {"1", "neutral"}, {"2", "contradiction"}});
  EXPECT_THAT(refusal(), HasSubstr("\"id2label\" puts \"Entailment\" at 0, \"label2id\" at 1"));
  set("label2id", nullptr);
  set("id2label", {{"0", "LABEL_0"}, {"1", "not_entailment"}, {"2", "LABEL_2"}});
  EXPECT_THAT(
      refusal(true),
      HasSubstr(
          "config.json: no entailment label (\"id2label\" has LABEL_0, not_entailment, LABEL_2)"));
  set("id2label", {{"0", "a"}, {"2", "b"}, {"3", "c"}});
  EXPECT_THAT(refusal(),
              HasSubstr("\"id2label\" must give each of the places 0 to n - 1 one name"));
  set("id2label", nullptr);
  EXPECT_THAT(refusal(), HasSubstr("\"classifier.weight\" has shape (3, 32)"));
  set("num_labels", 3);
  EXPECT_THAT(refusal(true), HasSubstr("no entailment label"));
}

TEST_F(ClassifierFolder, UnsupportedDebertasAreNamed) {
  const auto refused = [&](const char* key, const Json& value, const char* words) {
    const Json before = read_json(model / "config.json");
    set(key, value);
    EXPECT_THAT(refusal(), HasSubstr(words));
    write_json(model / "config.json", before);
  };
  refused("talking_head", true, "config.json: \"talking_head\" is true; supported are models as");
  refused("conv_kernel_size", 3, "\"conv_kernel_size\" asks for a convolution");
  refused("relative_attention", false, "\"relative_attention\" is not true");
  refused("pos_att_type", Json::array({"c2p"}), "\"pos_att_type\" is not c2p and p2c");
  refused("pooler_hidden_act", "silu", "\"pooler_hidden_act\" is \"silu\"");
  refused("max_relative_positions", 12, "encoder.rel_embeddings.weight\" has shape (32, 32)");
  refused("pooler_hidden_size", 16, "differs from \"hidden_size\"");
  set("pos_att_type", "c2p|p2c");
  EXPECT_EQ(refusal(), "(accepted)");
  use("cross_deberta_v3");
  refused("position_buckets", 60,
          "\"position_buckets\" 60 does not fit \"max_relative_positions\" 24");
  refused("attention_head_size", 16, "\"attention_head_size\" times");
}

TEST_F(ClassifierFolder, WeightsThatDoNotFitAreNamed) {
  rewrite([](std::vector<TensorView>& tensors) {
    for (TensorView& tensor : tensors)
      if (tensor.name.ends_with("layer.1.attention.self.in_proj.weight")) tensor.name += "s";
  });
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors: the weight "
                                   "\"encoder.layer.1.attention.self.in_proj.weight\" is missing"));
  rewrite([](std::vector<TensorView>& tensors) {
    for (TensorView& tensor : tensors)
      if (tensor.name.ends_with("in_proj.weights")) tensor.name.pop_back();
    TensorView more = tensors.front();
    more.name = "classifier.more";
    tensors.push_back(more);
  });
  EXPECT_THAT(
      refusal(),
      HasSubstr("the weight \"classifier.more\" has no place in a deberta model of 2 layers"));
  use("tiny_bert");
  EXPECT_THAT(
      refusal(),
      HasSubstr(
          "the weight \"classifier.weight\" is missing; this is an encoder without a classifier"));
}

TEST_F(ClassifierFolder, AnUnusedPositionTableIsLeftAside) {
  rewrite([](std::vector<TensorView>& tensors) {
    TensorView table = tensors.front();
    table.name = "deberta.embeddings.position_embeddings.weight";
    tensors.push_back(table);
  });
  EXPECT_EQ(refusal(), "(accepted)");
}

TEST_F(ClassifierFolder, AnEncoderIsWrittenInTheOrderOfTheFile) {
  const LoadedEncoder loaded = load_encoder(model);
  EXPECT_FALSE(loaded.encoder.has_pooler());
  save_encoder_folder(root / "saved", loaded.encoder, loaded.model.embedding, loaded.model);
  const std::string name = "encoder.layer.1.attention.self.in_proj.weight";
  EXPECT_EQ(to_floats(ModelWeights(root / "saved").at(name)),
            to_floats(ModelWeights(model).at("deberta." + name)));
  EXPECT_TRUE(at::equal(load_encoder(root / "saved").encoder.parameter(name),
                        loaded.encoder.parameter(name)));
  EXPECT_EQ(read_json(root / "saved" / "config.json")["architectures"],
            Json::array({"DebertaModel"}));
}

}  // namespace
}  // namespace gpuhpc
