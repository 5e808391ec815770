#include <gpuhpc/nn/encoder_config.hpp>

#include <gpuhpc/base/error.hpp>
#include <gpuhpc/text/tokenizer.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "config_keys.hpp"
#include "modules.hpp"

namespace gpuhpc {
namespace {

namespace fs = std::filesystem;

Activation parse_activation(const Keys& keys, const char* key = "hidden_act") {
  const std::string name = keys.text(key, "gelu");
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast")
    return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  throw input_error(
      "{}: \"{}\" is \"{}\"; supported are gelu, gelu_new, gelu_pytorch_tanh and relu", keys.file(),
      key, name);
}

// Whether the tokenizer lower-cases: "do_lower_case" of sentence-transformers, which does so before
// it, then changes nothing.
bool tokenizer_lowers(const fs::path& folder) {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(folder);
  std::vector<std::int32_t> capitals, small;
  tokenizer->encode("A B C D E F G H I J K L M N O P Q R S T U V W X Y Z", capitals);
  tokenizer->encode("a b c d e f g h i j k l m n o p q r s t u v w x y z", small);
  return capitals == small;
}

// The length limit: sentence_bert_config.json (older folders), else model_max_length of the
// tokenizer; never above the position table.
std::int64_t read_max_tokens(const fs::path& folder, const EncoderConfig& encoder) {
  const std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  std::int64_t tokens = encoder.max_tokens();
  for (const char* name : {"sentence_bert_config.json", "sentence_roberta_config.json",
                           "sentence_xlm-roberta_config.json"}) {
    if (!fs::exists(folder / name)) continue;
    const Keys keys(folder / name);
    if (keys.flag("do_lower_case") && !tokenizer_lowers(folder))
      throw input_error(
          "{}: \"do_lower_case\" is true and the tokenizer keeps capitals, which is not supported; "
          "let the tokenizer lower-case (a `Lowercase` normalizer in tokenizer.json)",
          keys.file());
    if (keys.has("max_seq_length"))
      return std::min(tokens, keys.integer("max_seq_length", 3, limit));
  }
  if (fs::exists(folder / "tokenizer_config.json")) {
    const Keys keys(folder / "tokenizer_config.json");
    // "No limit" is written there as 1e30, an integer that no 64-bit word holds.
    if (keys.has("model_max_length") && keys.at("model_max_length").is_number()) {
      const double given = keys.at("model_max_length").get<double>();
      if (given >= 3 && given < static_cast<double>(tokens))
        tokens = static_cast<std::int64_t>(given);
    }
  }
  return tokens;
}

// Both spellings of DeBERTa: "c2p|p2c" and ["c2p", "p2c"].
bool attends_both_ways(const Keys& keys) {
  if (!keys.has("pos_att_type")) return false;
  std::string all;
  if (const Json& given = keys.at("pos_att_type"); given.is_array()) {
    for (const Json& way : given) all += way.is_string() ? way.get<std::string>() + "|" : "?";
  } else
    all = keys.text("pos_att_type", "") + "|";
  std::erase(all, ' ');
  std::transform(all.begin(), all.end(), all.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return all == "c2p|p2c|" || all == "p2c|c2p|";
}

void refuse_unsupported_deberta(const Keys& keys, const EncoderConfig& config) {
  const auto refuse = [&](const char* what) {
    throw input_error(
        "{}: {}; supported are models as deberta-base, deberta-large, deberta-v3-base and "
        "deberta-v3-large are",
        keys.file(), what);
  };
  if (!keys.flag("relative_attention")) refuse("\"relative_attention\" is not true");
  if (!attends_both_ways(keys)) refuse("\"pos_att_type\" is not c2p and p2c");
  if (keys.flag("talking_head")) refuse("\"talking_head\" is true");
  if (keys.has("conv_kernel_size") && keys.integer("conv_kernel_size", 0, 1 << 10) > 0)
    refuse("\"conv_kernel_size\" asks for a convolution (deberta-v2-xlarge)");
  for (const char* key : {"embedding_size", "pooler_hidden_size"})
    if (keys.has(key) && keys.integer(key, 1, 1 << 16) != config.hidden_size)
      refuse("\"embedding_size\" or \"pooler_hidden_size\" differs from \"hidden_size\"");
  if (keys.has("attention_head_size") &&
      keys.integer("attention_head_size", 1, 1 << 16) * config.heads != config.hidden_size)
    refuse("\"attention_head_size\" times \"num_attention_heads\" is not \"hidden_size\"");
}

RelativeAttention read_relative_attention(const Keys& keys, const EncoderConfig& config) {
  refuse_unsupported_deberta(keys, config);
  RelativeAttention relative;
  const auto whole = [&](const char* key) {
    return keys.has(key) ? keys.integer(key, -1, 1 << 20) : -1;
  };
  relative.farthest = whole("max_relative_positions");
  if (relative.farthest < 1) relative.farthest = config.position_rows;
  relative.fused_projections = config.model_type == "deberta";
  if (relative.fused_projections) return relative;
  relative.buckets = std::max<std::int64_t>(0, whole("position_buckets"));
  if (relative.buckets == 1 ||
      (relative.buckets > 0 && relative.farthest - 1 <= relative.buckets / 2)) {
    throw input_error("{}: \"position_buckets\" {} does not fit \"max_relative_positions\" {}",
                      keys.file(), relative.buckets, relative.farthest);
  }
  relative.shared_projections = keys.flag("share_att_key");
  relative.normalised =
      ("|" + keys.text("norm_rel_ebd", "none") + "|").find("|layer_norm|") != std::string::npos;
  return relative;
}

// Both spellings of ModernBERT's layers: "layer_types", or every so many a global one.
std::vector<bool> read_local_layers(const Keys& keys, std::int64_t layers) {
  std::vector<bool> local;
  if (!keys.has("layer_types")) {
    const std::int64_t every = keys.integer_or("global_attn_every_n_layers", 3, 1, 1 << 10);
    for (std::int64_t i = 0; i < layers; ++i) local.push_back(i % every != 0);
    return local;
  }
  const Json& types = keys.at("layer_types");
  for (std::size_t i = 0; types.is_array() && i < types.size(); ++i)
    if (types[i] == "full_attention" || types[i] == "sliding_attention")
      local.push_back(types[i] == "sliding_attention");
  if (!types.is_array() || std::ssize(local) != layers || local.size() != types.size())
    throw input_error(
        "{}: \"layer_types\" must name full_attention or sliding_attention for each of the {} "
        "layers",
        keys.file(), layers);
  return local;
}

// Both spellings of a theta: in "rope_parameters" by the type of layer, or under a key of its own.
double read_theta(const Keys& keys, const char* type, const char* key, double usual) {
  if (keys.has("rope_scaling"))
    throw input_error("{}: \"rope_scaling\" is not supported; supported are plain rotary positions",
                      keys.file());
  usual = keys.number(key, usual, 1, 1e12);
  if (!keys.has("rope_parameters")) return usual;
  const Json& all = keys.at("rope_parameters");
  const Json part = all.is_object() && all.contains(type) && !all[type].is_null()
                        ? all[type]
                        : Json(all.is_object() ? Json::value_t::object : Json::value_t::null);
  const bool plain = part.is_object() &&
                     (!part.contains("rope_type") || part["rope_type"] == "default") &&
                     (!part.contains("rope_theta") || part["rope_theta"].is_number());
  const double theta =
      plain && part.contains("rope_theta") ? part["rope_theta"].get<double>() : usual;
  if (!plain || !(theta >= 1 && theta <= 1e12))
    throw input_error(
        "{}: \"rope_parameters\" must give {} a \"rope_theta\" from 1 to 1e12 and the rope_type "
        "default",
        keys.file(), type);
  return theta;
}

// What is missing is as in transformers' ModernBertConfig.
EncoderConfig read_modern_config(const Keys& keys) {
  for (const char* key : {"attention_bias", "mlp_bias", "norm_bias"})
    if (keys.flag(key))
      throw input_error(
          "{}: \"{}\" is true; supported are ModernBERT models without biases, as all published "
          "ones are",
          keys.file(), key);
  EncoderConfig config;
  config.model_type = "modernbert";
  config.vocabulary_size = keys.integer_or("vocab_size", 50368, 1, std::int64_t{1} << 31);
  config.hidden_size = keys.integer_or("hidden_size", 768, 1, 1 << 16);
  config.layers = keys.integer_or("num_hidden_layers", 22, 1, 1 << 10);
  config.heads = keys.integer_or("num_attention_heads", 12, 1, 1 << 10);
  config.intermediate_size = keys.integer_or("intermediate_size", 1152, 1, 1 << 18);
  config.position_rows = keys.integer_or("max_position_embeddings", 8192, 3, 1 << 20);
  config.position_table = false;
  config.padding_id = keys.integer_or("pad_token_id", 50283, 0, 1 << 30);
  config.initializer_range = keys.number("initializer_range", .02, 0, 10);
  config.layer_norm_epsilon = keys.number("norm_eps", 1e-5, 0, 1);
  config.hidden_dropout = keys.number("mlp_dropout", 0, 0, 0.99);
  config.attention_dropout = keys.number("attention_dropout", 0, 0, 0.99);
  config.activation = parse_activation(keys, "hidden_activation");
  ModernLayers modern;
  modern.global_theta =
      read_theta(keys, "full_attention", "global_rope_theta", modern.global_theta);
  if (keys.is_null("local_rope_theta")) modern.local_theta = modern.global_theta;
  modern.local_theta =
      read_theta(keys, "sliding_attention", "local_rope_theta", modern.local_theta);
  modern.window = keys.integer_or("local_attention", 128, 1, 1 << 20) / 2;
  modern.local = read_local_layers(keys, config.layers);
  config.modern = std::move(modern);
  if (config.hidden_size % (2 * config.heads) != 0)
    throw input_error(
        "{}: hidden_size {} is not a multiple of twice the num_attention_heads {}: rotary "
        "positions "
        "turn pairs of values",
        keys.file(), config.hidden_size, config.heads);
  return config;
}

}  // namespace

std::int64_t RelativeAttention::row(std::int64_t distance) const {
  const std::int64_t middle = buckets / 2, size = std::abs(distance);
  std::int64_t place = distance;
  if (buckets > 0 && size > middle) {
    // As transformers rounds it: in fp32, in this order.
    const auto half = static_cast<float>(middle);
    const float share = std::log(static_cast<float>(size) / half) /
                        std::log(static_cast<float>(static_cast<double>(farthest - 1) /
                                                    static_cast<double>(middle)));
    const auto bucket = static_cast<std::int64_t>(std::ceil(share * (half - 1)) + half);
    place = distance < 0 ? -bucket : bucket;
  }
  return std::clamp<std::int64_t>(place + span(), 0, rows() - 1);
}

std::int64_t DistanceBuckets::bucket(std::int64_t distance) const {
  const std::int64_t side = causal ? count : count / 2, near = side / 2;
  const std::int64_t first = !causal && distance > 0 ? side : 0,
                     size = causal ? std::max<std::int64_t>(-distance, 0) : std::abs(distance);
  if (size < near) return first + size;
  // As transformers rounds it: in fp32, in this order.
  const float share =
      std::log(static_cast<float>(size) / static_cast<float>(near)) /
      static_cast<float>(std::log(static_cast<double>(farthest) / static_cast<double>(near)));
  const auto far = static_cast<std::int64_t>(share * static_cast<float>(side - near));
  return first + std::min(near + far, side - 1);
}

std::string word_table(const EncoderConfig& config) {
  return config.modern ? "embeddings.tok_embeddings.weight" : "embeddings.word_embeddings.weight";
}

EncoderConfig read_encoder_config(const fs::path& config_file) {
  const Keys keys(config_file);
  EncoderConfig config;
  config.model_type = keys.text("model_type", "");
  if (config.model_type == "modernbert") return read_modern_config(keys);
  const bool roberta = config.model_type == "roberta" || config.model_type == "xlm-roberta";
  const bool deberta = config.model_type == "deberta" || config.model_type == "deberta-v2";
  const bool mpnet = config.model_type == "mpnet";
  if (config.model_type != "bert" && !roberta && !deberta && !mpnet) {
    throw input_error(
        "{}: model_type \"{}\" is not supported; supported are bert, roberta, xlm-roberta, mpnet, "
        "modernbert, deberta and deberta-v2",
        keys.file(), config.model_type);
  }
  const std::string positions = keys.text("position_embedding_type", "absolute");
  if (positions != "absolute") {
    throw input_error("{}: position_embedding_type \"{}\" is not supported; supported is absolute",
                      keys.file(), positions);
  }
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (keys.flag(key))
      throw input_error("{}: \"{}\" is true; only encoders are supported", keys.file(), key);
  }
  config.vocabulary_size = keys.integer("vocab_size", 1, std::int64_t{1} << 31);
  config.hidden_size = keys.integer("hidden_size", 1, 1 << 16);
  config.layers = keys.integer("num_hidden_layers", 1, 1 << 10);
  config.heads = keys.integer("num_attention_heads", 1, 1 << 10);
  config.intermediate_size = keys.integer("intermediate_size", 1, 1 << 18);
  config.position_rows = keys.integer("max_position_embeddings", 3, 1 << 20);
  config.token_types = keys.has("type_vocab_size") ? keys.integer("type_vocab_size", 0, 1 << 10)
                       : deberta                   ? 0
                                                   : 2;
  if (mpnet) config.token_types = 0;
  config.padding_id = keys.has("pad_token_id") && !mpnet ? keys.integer("pad_token_id", 0, 1 << 30)
                      : roberta || mpnet                 ? 1
                                                         : 0;
  if (roberta || mpnet) config.position_offset = config.padding_id + 1;
  config.initializer_range = keys.number("initializer_range", .02, 0, 10);
  config.layer_norm_epsilon = keys.number("layer_norm_eps", deberta ? 1e-7 : 1e-12, 0, 1);
  config.hidden_dropout = keys.number("hidden_dropout_prob", 0.1, 0, 0.99);
  config.attention_dropout = keys.number("attention_probs_dropout_prob", 0.1, 0, 0.99);
  config.activation = parse_activation(keys);
  if (config.hidden_size % config.heads != 0) {
    throw input_error("{}: hidden_size {} is not a multiple of num_attention_heads {}", keys.file(),
                      config.hidden_size, config.heads);
  }
  if (mpnet) {
    config.distances.emplace();
    // transformers sorts distances into 32 buckets whatever the key says.
    if (keys.has("relative_attention_num_buckets"))
      keys.integer("relative_attention_num_buckets", 32, 32);
  }
  if (deberta) {
    config.relative = read_relative_attention(keys, config);
    config.position_table =
        !keys.has("position_biased_input") || keys.flag("position_biased_input");
  }
  if (config.max_tokens() < 3) {
    throw input_error("{}: max_position_embeddings {} leaves no room for a document", keys.file(),
                      config.position_rows);
  }
  return config;
}

ModelFolder read_model_folder(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw io_error("{}: no such model folder; give a folder with config.json and model.safetensors",
                   folder.string());
  ModelFolder model;
  model.folder = folder;
  model.weights_folder = folder;
  model.sentence_transformers = fs::exists(folder / "modules.json");
  Modules modules;
  if (model.sentence_transformers) {
    modules = read_modules(folder);
    model.weights_folder = modules.transformer;
  }
  const fs::path config_file = model.weights_folder / "config.json";
  if (!fs::exists(config_file)) {
    throw input_error("{}: no config.json; a Hugging Face model folder is expected",
                      model.weights_folder.string());
  }
  model.encoder = read_encoder_config(config_file);
  const std::int64_t max_tokens = read_max_tokens(model.weights_folder, model.encoder);
  model.embedding = read_embedding(modules, folder, model.encoder.hidden_size);
  model.pools = !model.sentence_transformers || !modules.pooling.empty();
  model.embedding.max_tokens = max_tokens;
  model.prompts = read_prompts(folder);
  return model;
}

void ModelFolder::check_prompt(const std::string& prompt) const {
  if (!prompt.empty() && !embedding.pools_prompt)
    throw input_error(
        "{}: the prompt \"{}\" would have to be left out of the pooling (\"include_prompt\" is "
        "false), which is not supported; encode without a prompt: --model.prompt \"\"",
        (folder / "1_Pooling" / "config.json").string(), prompt);
}

void check_vocabulary(const ModelFolder& model, std::int64_t tokenizer_vocabulary_size) {
  if (tokenizer_vocabulary_size > model.encoder.vocabulary_size) {
    throw input_error(
        "{}: a vocabulary that does not fit the weights: the tokenizer has {} entries, the word "
        "table {} rows; take tokenizer and weights from one model",
        model.folder.string(), tokenizer_vocabulary_size, model.encoder.vocabulary_size);
  }
}

std::string_view to_string(Pooling pooling) {
  switch (pooling) {
    case Pooling::mean:
      return "mean";
    case Pooling::cls:
      return "cls";
    case Pooling::max:
      return "max";
    case Pooling::pooler:
      return "pooler";
    case Pooling::last:
      return "lasttoken";
  }
  throw internal_error("pooling {} has no name", static_cast<int>(pooling));
}

Pooling parse_pooling(std::string_view name) {
  for (const Pooling pooling :
       {Pooling::mean, Pooling::cls, Pooling::max, Pooling::pooler, Pooling::last}) {
    if (to_string(pooling) == name) return pooling;
  }
  throw usage_error("pooling \"{}\" is unknown; choose mean, cls, max, pooler or lasttoken", name);
}

}  // namespace gpuhpc
