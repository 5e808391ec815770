// Model folders: what is read, what is refused and with which words, and that a written folder is
// the same model.
#include <gpuhpc/base/error.hpp>
#include <gpuhpc/io/atomic_file.hpp>
#include <gpuhpc/io/json.hpp>
#include <gpuhpc/nn/folder.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <bit>
#include <functional>
#include <tuple>

#include "fixture.hpp"

namespace gpuhpc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    root = fs::temp_directory_path() / ("gpuhpc_nn_folder_" + std::to_string(::getpid()));
    fs::remove_all(root);
    fs::create_directories(root);
    model = copy_of("tiny_bert");
  }
  void TearDown() override { fs::remove_all(root); }

  fs::path copy_of(const std::string& name) {
    fs::copy(fixture_path(name), root / name, fs::copy_options::recursive);
    return root / name;
  }
  // Changes one key of a JSON file of the model; null removes it.
  void set(const std::string& key, const Json& value, const std::string& file = "config.json") {
    Json json = fs::exists(model / file) ? read_json(model / file) : Json::object();
    if (value.is_null())
      json.erase(key);
    else
      json[key] = value;
    fs::create_directories((model / file).parent_path());
    write_json(model / file, json);
  }
  void set_modules(const std::vector<std::string>& types) {
    Json modules = Json::array();
    for (const std::string& type : types) {
      const std::string path = type.ends_with("Pooling") ? "1_Pooling" : "";
      modules.push_back({{"type", type}, {"path", path}});
    }
    write_json(model / "modules.json", modules);
  }
  // The sentence and exit code of refusing the model.
  std::string refusal(ExitCode code = ExitCode::bad_data) {
    try {
      load_encoder(model);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "(accepted)";
  }
  // Rewrites the weights; `change` may rename, drop, add or reshape.
  void rewrite(const std::function<void(std::vector<TensorView>&)>& change) {
    std::vector<TensorView> tensors;
    {
      const SafeTensors source(model / "model.safetensors");
      tensors = source.tensors();
      change(tensors);
      write_safetensors(root / "changed.safetensors", tensors);
    }
    fs::rename(root / "changed.safetensors", model / "model.safetensors");
  }

  fs::path root, model;
};

TEST_F(Folder, ConfigIsRead) {
  const ModelFolder minilm = read_model_folder(minilm_folder);
  EXPECT_TRUE(minilm.sentence_transformers);
  EXPECT_EQ(minilm.encoder.layers, 6);
  EXPECT_EQ(minilm.encoder.head_size(), 32);
  EXPECT_EQ(minilm.encoder.max_tokens(), 512);
  EXPECT_EQ(minilm.embedding.max_tokens, 256);
  EXPECT_EQ(minilm.embedding.pooling, Pooling::mean);
  EXPECT_TRUE(minilm.embedding.normalise);
  const ModelFolder roberta = read_model_folder(fixture_path("tiny_roberta"));
  EXPECT_EQ(roberta.encoder.position_offset, 2);
  EXPECT_EQ(roberta.encoder.max_tokens(), 24);
  EXPECT_EQ(roberta.encoder.activation, Activation::relu);
  EXPECT_FALSE(roberta.sentence_transformers);
  EXPECT_FALSE(roberta.embedding.normalise);
}

TEST_F(Folder, BothSpellingsOfSentenceTransformersAreRead) {
  set_modules({"sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling",
               "sentence_transformers.models.Normalize"});
  set("pooling_mode_cls_token", true, "1_Pooling/config.json");
  set("pooling_mode_mean_tokens", false, "1_Pooling/config.json");
  set("max_seq_length", 17, "sentence_bert_config.json");
  EXPECT_EQ(read_model_folder(model).embedding.pooling, Pooling::cls);
  EXPECT_EQ(read_model_folder(model).embedding.max_tokens, 17);
  fs::remove(model / "sentence_bert_config.json");
  fs::remove(model / "1_Pooling" / "config.json");
  set_modules({"sentence_transformers.base.modules.transformer.Transformer",
               "sentence_transformers.sentence_transformer.modules.pooling.Pooling"});
  set("pooling_mode", "max", "1_Pooling/config.json");
  set("model_max_length", 1e30, "tokenizer_config.json");
  EXPECT_EQ(read_model_folder(model).embedding.pooling, Pooling::max);
  EXPECT_EQ(read_model_folder(model).embedding.max_tokens, 24);
  EXPECT_FALSE(read_model_folder(model).embedding.normalise);
  set("model_max_length", 9, "tokenizer_config.json");
  EXPECT_EQ(read_model_folder(model).embedding.max_tokens, 9);
}

TEST_F(Folder, WeightsInASubfolderAreFound) {
  fs::create_directories(root / "st");
  fs::rename(model, root / "st" / "0_Transformer");
  model = root / "st";
  write_json(model / "modules.json",
             Json::array(
                 {{{"type", "sentence_transformers.models.Transformer"}, {"path", "0_Transformer"}},
                  {{"type", "sentence_transformers.models.Pooling"}, {"path", "1_Pooling"}}}));
  set("pooling_mode", "mean", "1_Pooling/config.json");
  EXPECT_EQ(load_encoder(model).encoder.config().layers, 2);
  write_json(model / "modules.json",
             Json::array({{{"type", "x.Transformer"}, {"path", "../0_Transformer"}}}));
  EXPECT_THAT(refusal(), HasSubstr("leaves the model folder"));
}

TEST_F(Folder, UnsupportedConfigurationsAreNamed) {
  set("model_type", "t5");
  EXPECT_THAT(refusal(), HasSubstr("config.json: model_type \"t5\" is not supported; supported are "
                                   "bert, roberta, xlm-roberta, mpnet, modernbert, deberta and "
                                   "deberta-v2"));
  set("model_type", "bert");
  set("hidden_act", "silu");
  EXPECT_THAT(refusal(), HasSubstr("\"hidden_act\" is \"silu\"; supported are gelu"));
  set("hidden_act", "gelu");
  set("position_embedding_type", "relative_key");
  EXPECT_THAT(refusal(), HasSubstr("position_embedding_type \"relative_key\""));
  set("position_embedding_type", nullptr);
  set("is_decoder", true);
  EXPECT_THAT(refusal(), HasSubstr("only encoders"));
  set("is_decoder", nullptr);
  set("num_attention_heads", 5);
  EXPECT_THAT(refusal(), HasSubstr("hidden_size 32 is not a multiple of num_attention_heads 5"));
  set("num_attention_heads", -1);
  EXPECT_THAT(refusal(), HasSubstr("\"num_attention_heads\" must lie between 1 and"));
  set("num_attention_heads", "four");
  EXPECT_THAT(refusal(), HasSubstr("\"num_attention_heads\" must be a whole number"));
  set("num_attention_heads", nullptr);
  EXPECT_THAT(refusal(), HasSubstr("the key \"num_attention_heads\" is missing"));
  write_text_file(model / "config.json", "{\"model_type\": \"bert\",\n oops");
  EXPECT_THAT(refusal(), HasSubstr("config.json:2"));
  fs::remove(model / "config.json");
  EXPECT_THAT(refusal(), HasSubstr("no config.json"));
}

TEST_F(Folder, UnsupportedModulesAreNamed) {
  set_modules({"sentence_transformers.models.Transformer", "sentence_transformers.models.LSTM"});
  EXPECT_THAT(refusal(),
              HasSubstr("the module \"sentence_transformers.models.LSTM\" is not supported;"));
  set_modules({"sentence_transformers.models.Transformer", "sentence_transformers.models.Dense"});
  EXPECT_THAT(refusal(), HasSubstr("models.Dense\" is not supported in this place"));
  set_modules({"sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling"});
  set("pooling_mode", "weightedmean", "1_Pooling/config.json");
  EXPECT_THAT(refusal(), HasSubstr("pooling \"weightedmean\" is not supported"));
  set("pooling_mode", Json::array({"mean", "max"}), "1_Pooling/config.json");
  EXPECT_THAT(refusal(), HasSubstr("exactly one pooling mode"));
  set("pooling_mode", "mean", "1_Pooling/config.json");
  set("embedding_dimension", 64, "1_Pooling/config.json");
  EXPECT_THAT(refusal(),
              HasSubstr("\"embedding_dimension\" is 64 but the encoder's hidden_size is 32"));
  write_text_file(model / "modules.json", "[]");
  EXPECT_THAT(refusal(), HasSubstr("no Transformer module"));
  set_modules({"sentence_transformers.models.Transformer"});  // as a CrossEncoder is written
  EXPECT_THAT(refusal(), HasSubstr("modules.json names no Pooling"));
}

// sentence-transformers' own default, where older files leave out what is false.
TEST_F(Folder, PoolingIsTheMeanUnlessSaidOtherwise) {
  set_modules({"sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling"});
  set("word_embedding_dimension", 32, "1_Pooling/config.json");
  EXPECT_EQ(read_model_folder(model).embedding.pooling, Pooling::mean);
  set("pooling_mode_cls_token", true, "1_Pooling/config.json");
  EXPECT_THAT(refusal(), HasSubstr("exactly one pooling mode"));
}

// As fine-tunes of BAAI/bge-small-en-v1.5 have it.
TEST_F(Folder, LowerCasingBeforeATokenizerThatLowersChangesNothing) {
  model = copy_of("dense_bert");
  set("do_lower_case", true, "sentence_bert_config.json");
  EXPECT_NO_THROW(load_encoder(model));
  Json tokenizer = read_json(model / "tokenizer.json");
  tokenizer["normalizer"]["lowercase"] = false;
  tokenizer["model"]["vocab"]["a"] = tokenizer["model"]["vocab"].size();  // A is unknown
  write_json(model / "tokenizer.json", tokenizer);
  set("do_lower_case", nullptr, "tokenizer_config.json");  // which would contradict
  EXPECT_THAT(refusal(), HasSubstr("the tokenizer keeps capitals"));
}

TEST_F(Folder, WeightsThatDoNotFitAreNamed) {
  set("vocab_size", 91);
  EXPECT_THAT(refusal(), HasSubstr("a vocabulary that does not fit the weights: "
                                   "\"embeddings.word_embeddings.weight\" has shape (90, 32)"));
  set("vocab_size", 90);
  set("num_hidden_layers", 3);
  EXPECT_THAT(refusal(),
              HasSubstr("the weight \"encoder.layer.2.attention.self.query.weight\" is missing"));
  set("num_hidden_layers", 1);
  EXPECT_THAT(refusal(), HasSubstr("has no place in a bert model of 1 layers"));
  set("num_hidden_layers", 2);
  set("intermediate_size", 63);
  EXPECT_THAT(refusal(),
              HasSubstr("encoder.layer.0.intermediate.dense.weight\" has shape (64, 32)"));
  set("intermediate_size", 64);
  fs::resize_file(model / "model.safetensors", fs::file_size(model / "model.safetensors") - 5);
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors"));
  EXPECT_THROW(check_vocabulary(read_model_folder(model), 91), Error);
  EXPECT_NO_THROW(check_vocabulary(read_model_folder(model), 90));
}

TEST_F(Folder, PickledWeightsAreRefusedWithTheCure) {
  fs::rename(model / "model.safetensors", model / "pytorch_model.bin");
  EXPECT_THAT(refusal(), HasSubstr("pytorch_model.bin"));
  fs::remove(model / "pytorch_model.bin");
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors"));
  model = root / "nowhere";
  EXPECT_THAT(refusal(ExitCode::io), HasSubstr("no such model folder"));
}

TEST_F(Folder, PrefixesOldNamesAndForeignHeadsAreUnderstood) {
  const at::Tensor before = load_encoder(model).encoder.parameter("embeddings.LayerNorm.bias");
  const std::vector<std::byte> head(8);
  rewrite([&](std::vector<TensorView>& tensors) {
    for (TensorView& tensor : tensors) {
      tensor.name = "bert." + tensor.name;
      if (tensor.name == "bert.embeddings.LayerNorm.bias")
        tensor.name = "bert.embeddings.LayerNorm.beta";
    }
    tensors.push_back({"cls.predictions.bias", TensorType::float32, {2}, head});
  });
  EXPECT_TRUE(
      at::equal(load_encoder(model).encoder.parameter("embeddings.LayerNorm.bias"), before));
  rewrite([](std::vector<TensorView>& tensors) {
    TensorView twin = tensors.front();
    twin.name = twin.name.substr(5);
    tensors.push_back(twin);
  });
  EXPECT_THAT(refusal(), HasSubstr("are the same weight"));
}

TEST_F(Folder, HalfPrecisionWeightsAreRead) {
  const at::Tensor exact =
      load_encoder(model).encoder.parameter("encoder.layer.1.output.dense.weight");
  std::vector<std::vector<std::uint16_t>> bytes;
  rewrite([&](std::vector<TensorView>& tensors) {
    for (TensorView& tensor : tensors) {
      std::vector<std::uint16_t> upper;  // bf16 is the upper half of fp32
      for (const float value : to_floats(tensor))
        upper.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
      bytes.push_back(std::move(upper));
      tensor.type = TensorType::bfloat16;
      tensor.data = std::as_bytes(std::span(bytes.back()));
    }
  });
  const at::Tensor rounded =
      load_encoder(model).encoder.parameter("encoder.layer.1.output.dense.weight");
  EXPECT_LE(largest_difference(rounded, exact), 0.01);
  EXPECT_GT(largest_difference(rounded, exact), 0);
}

TEST_F(Folder, SavedFolderIsTheSameModel) {
  LoadedEncoder loaded = load_encoder(minilm_folder);
  const at::Tensor changed = loaded.encoder.parameter("encoder.layer.5.output.LayerNorm.bias");
  changed.add_(0.25);
  const fs::path out = root / "saved" / "model";
  save_encoder_folder(out, loaded.encoder, loaded.model.embedding, loaded.model);
  const LoadedEncoder again = load_encoder(out);
  for (std::size_t i = 0; i < loaded.encoder.parameters().size(); ++i) {
    EXPECT_TRUE(
        at::equal(again.encoder.parameters()[i].value, loaded.encoder.parameters()[i].value))
        << loaded.encoder.parameters()[i].name;
  }
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt",
                           "special_tokens_map.json", "modules.json", "1_Pooling/config.json",
                           "sentence_bert_config.json", "config_sentence_transformers.json"}) {
    EXPECT_EQ(read_text_file(out / name), read_text_file(minilm_folder / name)) << name;
  }
  EXPECT_EQ(again.model.embedding.max_tokens, 256);
  EXPECT_TRUE(again.model.embedding.normalise);
}

// Unchanged settings keep the files' bytes; others are written anew.
TEST_F(Folder, DenseModulesAreSavedWithTheirWeights) {
  const fs::path source = fixture_path("dense_bert"), out = root / "saved";
  LoadedEncoder loaded = load_encoder(source);
  loaded.encoder.dense(1)[0].value.mul_(1.5);
  EmbeddingConfig shorter = loaded.model.embedding;
  shorter.max_tokens = 9;
  for (const EmbeddingConfig& embedding : {loaded.model.embedding, shorter}) {
    save_encoder_folder(out, loaded.encoder, embedding, loaded.model);
    EXPECT_EQ(read_text_file(out / "modules.json") == read_text_file(source / "modules.json"),
              embedding.max_tokens > 9);
    const LoadedEncoder again = load_encoder(out);
    EXPECT_EQ(again.model.embedding.max_tokens, embedding.max_tokens);
    EXPECT_TRUE(again.model.embedding.normalise);
    ASSERT_EQ(again.model.embedding.dense.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      const DenseConfig &was = loaded.model.embedding.dense[i],
                        &is = again.model.embedding.dense[i];
      EXPECT_EQ(
          std::tuple(is.folder, is.unit_inputs, is.inputs, is.outputs, is.bias, is.activation),
          std::tuple(was.folder, was.unit_inputs, was.inputs, was.outputs, was.bias,
                     was.activation));
    }
    for (std::size_t i = 0; i < loaded.encoder.parameters().size(); ++i)
      EXPECT_TRUE(
          at::equal(again.encoder.parameters()[i].value, loaded.encoder.parameters()[i].value))
          << loaded.encoder.parameters()[i].name;
  }
}

// A folder keeps its prompts as they are, or gets others; what sentence-transformers wrote beside
// them stays.
TEST_F(Folder, PromptsAndLastTokensAreSaved) {
  const fs::path source = fixture_path("prompted_bert"), out = root / "saved";
  const std::string file = "config_sentence_transformers.json";
  LoadedEncoder loaded = load_encoder(source);
  Prompts& prompts = loaded.model.prompts;
  EXPECT_EQ(prompts.default_name, "document");
  EXPECT_EQ(prompts.text(), "w21 ");
  EXPECT_EQ(prompts.text("query"), "w7 w9: ");
  EXPECT_EQ(prompts.text("query "), "query ");
  EXPECT_EQ(prompts.text(""), "");
  EmbeddingConfig shorter = loaded.model.embedding;
  shorter.max_tokens = 9;
  save_encoder_folder(out, loaded.encoder, shorter, loaded.model);
  EXPECT_EQ(read_text_file(out / file), read_text_file(source / file));
  EXPECT_EQ(load_encoder(out).model.embedding.pooling, Pooling::last);
  for (const auto& [given, name, text] :
       {std::tuple{"query", "query", "w7 w9: "}, {"w1: ", "default", "w1: "}, {"", "", ""}}) {
    prompts.choose(given);
    save_encoder_folder(out, loaded.encoder, shorter, loaded.model);
    const Prompts again = load_encoder(out).model.prompts;
    EXPECT_EQ(again, prompts);
    EXPECT_EQ(again.default_name, name);
    EXPECT_EQ(again.text(), text);
  }
  EXPECT_EQ(read_json(out / file).at("__version__"), read_json(source / file).at("__version__"));
  EXPECT_TRUE(read_json(out / file).at("default_prompt_name").is_null());
}

TEST_F(Folder, PromptsThatCannotBeAreNamed) {
  const std::string file = "config_sentence_transformers.json";
  set("prompts", Json{{"query", 3}}, file);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(file), HasSubstr("the prompt \"query\" must be a text")));
  set("prompts", Json::array(), file);
  EXPECT_THAT(refusal(), HasSubstr("\"prompts\" must be an object"));
  set("prompts", Json{{"query", "q: "}, {"none", nullptr}}, file);
  set("default_prompt_name", "document", file);
  EXPECT_THAT(refusal(), HasSubstr("\"default_prompt_name\" is \"document\", which \"prompts\""));
  set("default_prompt_name", "query", file);
  EXPECT_EQ(load_encoder(model).model.prompts.text(), "q: ");
  set_modules({"a.Transformer", "a.Pooling"});
  set("pooling_mode", "mean", "1_Pooling/config.json");
  set("include_prompt", false, "1_Pooling/config.json");
  const ModelFolder left_out = load_encoder(model).model;
  left_out.check_prompt("");
  try {
    left_out.check_prompt("q: ");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("1_Pooling"), HasSubstr("left out of the pooling")));
  }
}

TEST_F(Folder, DenseModulesThatDoNotFitAreNamed) {
  fs::copy(fixture_path("dense_bert"), model,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const std::string file = "4_Dense/config.json";
  for (const auto& [key, value, good, words] :
       std::vector<std::tuple<const char*, Json, Json, const char*>>{
           {"in_features", 25, 24, "\"in_features\" is 25 but the module before gives 24"},
           {"activation_function", "torch.nn.modules.activation.SiLU",
            "torch.nn.modules.activation.ReLU", "activation.SiLU\" is not supported"},
           {"module_input_name", "token_embeddings", "sentence_embedding",
            "\"module_input_name\" is \"token_embeddings\""},
           {"use_residual", true, false, "\"use_residual\" is true"},
           {"bias", true, false, "the weight \"linear.bias\" is missing"}}) {
    set(key, value, file);
    EXPECT_THAT(refusal(), AllOf(HasSubstr("4_Dense"), HasSubstr(words)));
    set(key, good, file);
  }
  fs::remove(model / "4_Dense" / "model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("4_Dense"));
}

TEST_F(Folder, AnyHeadIsSavedBesideItsEncoder) {
  const LoadedEncoder loaded = load_encoder(fixture_path("tiny_mpnet"));
  const fs::path out = root / "headed";
  save_headed_folder(out, loaded.encoder,
                     std::vector<NamedParameter>{{"lm_head.bias", at::full({90}, 0.25)}},
                     "ForMaskedLM", {{"tie_word_embeddings", true}}, loaded.model);
  const Json config = read_json(out / "config.json");
  EXPECT_EQ(config["architectures"], Json::array({"MPNetForMaskedLM"}));
  EXPECT_EQ(config["tie_word_embeddings"], true);
  const LoadedEncoder again = load_encoder(out);
  EXPECT_FALSE(again.encoder.has_pooler());
  for (std::size_t i = 0; i < again.encoder.parameters().size(); ++i)
    EXPECT_TRUE(
        at::equal(again.encoder.parameters()[i].value, loaded.encoder.parameters()[i].value));
  const std::vector<NamedParameter> head{{"lm_head.bias", at::zeros({90})}};
  load_weights(out, head);
  EXPECT_TRUE(at::equal(head[0].value, at::full({90}, 0.25)));
  EXPECT_THROW(load_weights(out, {{"lm_head.weight", at::zeros({90})}}), Error);
}

TEST_F(Folder, ChangedSettingsAreWritten) {
  const LoadedEncoder loaded = load_encoder(model);
  const fs::path out = root / "saved";
  save_encoder_folder(out, loaded.encoder, {Pooling::max, true, 12}, loaded.model);
  const ModelFolder again = read_model_folder(out);
  EXPECT_TRUE(again.sentence_transformers);
  EXPECT_EQ(again.embedding.pooling, Pooling::max);
  EXPECT_TRUE(again.embedding.normalise);
  EXPECT_EQ(again.embedding.max_tokens, 12);
  set("architectures", Json::array({"BertForMaskedLM"}));
  save_encoder_folder(out, loaded.encoder, {Pooling::cls, false, 12}, loaded.model);
  EXPECT_EQ(read_json(out / "config.json")["architectures"], Json::array({"BertModel"}));
  EXPECT_FALSE(read_model_folder(out).embedding.normalise);
}

TEST(PoolingNames, AreReadAndRefused) {
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::max, Pooling::pooler})
    EXPECT_EQ(parse_pooling(to_string(pooling)), pooling);
  EXPECT_THROW(parse_pooling("median"), Error);
}

}  // namespace
}  // namespace gpuhpc
