#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "config_keys.hpp"
#include "gpuhpc/nn/t5.hpp"

namespace gpuhpc {
namespace {

// "relu", "gated-gelu" (which means gelu_new), "gated-silu" ..
void read_feed_forward(const Keys& keys, T5Config& config) {
  const std::string name =
      keys.text("feed_forward_proj", config.model_type == "mt5" ? "gated-gelu" : "relu");
  config.gated = name.starts_with("gated-");
  const std::string word = config.gated ? name.substr(6) : name;
  static const std::map<std::string, Activation, std::less<>> known{
      {"relu", Activation::relu},
      {"gelu", Activation::gelu},
      {"gelu_new", Activation::gelu_tanh},
      {"gelu_pytorch_tanh", Activation::gelu_tanh}};
  const auto found = known.find(word);
  if (found == known.end())
    throw input_error(
        "{}: \"feed_forward_proj\" is \"{}\"; supported are relu, gelu and gelu_new, plain or "
        "after gated-",
        keys.file(), name);
  config.activation = name == "gated-gelu" ? Activation::gelu_tanh : found->second;
}

std::int32_t token_id(const Keys& keys, const char* key, std::int32_t fallback) {
  return keys.has(key) ? static_cast<std::int32_t>(keys.integer(key, 0, 1 << 30)) : fallback;
}

}  // namespace

T5Config read_t5_config(const std::filesystem::path& config_file) {
  const Keys keys(config_file);
  T5Config config;
  config.model_type = keys.text("model_type", "");
  if (config.model_type != "t5" && config.model_type != "mt5")
    throw input_error("{}: model_type \"{}\" is not supported; supported are t5 and mt5",
                      keys.file(), config.model_type);
  config.vocabulary_size = keys.integer("vocab_size", 1, std::int64_t{1} << 31);
  config.hidden_size = keys.integer("d_model", 1, 1 << 16);
  config.head_size = keys.integer("d_kv", 1, 1 << 12);
  config.heads = keys.integer("num_heads", 1, 1 << 10);
  config.intermediate_size = keys.integer("d_ff", 1, 1 << 18);
  config.layers = keys.integer("num_layers", 1, 1 << 10);
  config.decoder_layers = keys.has("num_decoder_layers")
                              ? keys.integer("num_decoder_layers", 1, 1 << 10)
                              : config.layers;
  if (keys.has("relative_attention_num_buckets"))
    config.bucket_count = keys.integer("relative_attention_num_buckets", 4, 1 << 12);
  if (keys.has("relative_attention_max_distance"))
    config.farthest = keys.integer("relative_attention_max_distance", 2, 1 << 20);
  if (config.farthest <= config.bucket_count / 2)
    throw input_error(
        "{}: \"relative_attention_max_distance\" {} does not fit \"relative_attention_num_buckets\""
        " {}",
        keys.file(), config.farthest, config.bucket_count);
  config.epsilon = keys.number("layer_norm_epsilon", 1e-6, 0, 1);
  config.dropout = keys.number("dropout_rate", .1, 0, .99);
  config.initializer_factor = keys.number("initializer_factor", 1, 0, 1e3);
  read_feed_forward(keys, config);
  config.tied_head = !keys.has("tie_word_embeddings") || keys.flag("tie_word_embeddings");
  // transformers 5 says it by a key of its own, earlier ones by the tie.
  config.scaled_head =
      config.model_type == "t5" &&
      (keys.has("scale_decoder_outputs") ? keys.flag("scale_decoder_outputs") : config.tied_head);
  config.eos = token_id(keys, "eos_token_id", 1);
  config.start = token_id(keys, "decoder_start_token_id", token_id(keys, "pad_token_id", 0));
  const auto prefix = nlohmann::json::json_pointer("/summarization/prefix");
  if (keys.has("task_specific_params") && keys.at("task_specific_params").contains(prefix) &&
      keys.at("task_specific_params").at(prefix).is_string())
    config.prefix = keys.at("task_specific_params").at(prefix).get<std::string>();
  return config;
}

nlohmann::ordered_json new_t5_config(const std::string& size, std::int64_t vocabulary_size) {
  const bool base = size == "base";
  if (!base && size != "small") throw internal_error("T5 has no published size {}", size);
  return {{"architectures", {"T5ForConditionalGeneration"}},
          {"model_type", "t5"},
          {"vocab_size", vocabulary_size},
          {"d_model", base ? 768 : 512},
          {"d_kv", 64},
          {"d_ff", base ? 3072 : 2048},
          {"num_layers", base ? 12 : 6},
          {"num_decoder_layers", base ? 12 : 6},
          {"num_heads", base ? 12 : 8},
          {"relative_attention_num_buckets", 32},
          {"relative_attention_max_distance", 128},
          {"dropout_rate", .1},
          {"layer_norm_epsilon", 1e-6},
          {"initializer_factor", 1.0},
          {"feed_forward_proj", "relu"},
          {"is_encoder_decoder", true},
          {"tie_word_embeddings", true},
          {"pad_token_id", 0},
          {"eos_token_id", 1},
          {"decoder_start_token_id", 0}};
}

std::vector<NamedShape> t5_shapes(const T5Config& c) {
  const std::int64_t hidden = c.hidden_size, inner = c.inner_size(), wide = c.intermediate_size;
  std::vector<NamedShape> shapes{{"shared.weight", {c.vocabulary_size, hidden}}};
  for (const char* stack : {"encoder", "decoder"})
    shapes.push_back(
        {fmt::format("{}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", stack),
         {c.bucket_count, c.heads}});
  for (const char* stack : {"encoder", "decoder"})
    shapes.push_back({fmt::format("{}.final_layer_norm.weight", stack), {hidden}});
  if (!c.tied_head) shapes.push_back({"lm_head.weight", {c.vocabulary_size, hidden}});
  for (const bool decoder : {false, true})
    for (std::int64_t i = 0; i < (decoder ? c.decoder_layers : c.layers); ++i) {
      int part = 0;
      const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
        shapes.push_back({fmt::format("{}.block.{}.layer.{}.{}.weight",
                                      decoder ? "decoder" : "encoder", i, part, name),
                          std::move(shape)});
      };
      const auto attention = [&](const std::string& name) {
        for (const char* kind : {".q", ".k", ".v"}) add((name + kind).c_str(), {inner, hidden});
        add((name + ".o").c_str(), {hidden, inner});
        add("layer_norm", {hidden});
        ++part;
      };
      attention("SelfAttention");
      if (decoder) attention("EncDecAttention");
      if (c.gated)
        for (const char* gate : {"DenseReluDense.wi_0", "DenseReluDense.wi_1"})
          add(gate, {wide, hidden});
      else
        add("DenseReluDense.wi", {wide, hidden});
      add("DenseReluDense.wo", {hidden, wide});
      add("layer_norm", {hidden});
    }
  return shapes;
}

std::int64_t t5_parameter_count(const T5Config& config) {
  std::int64_t sum = 0;
  for (const NamedShape& weight : t5_shapes(config))
    sum += std::accumulate(weight.shape.begin(), weight.shape.end(), std::int64_t{1},
                           std::multiplies<>());
  return sum;
}

}  // namespace gpuhpc
