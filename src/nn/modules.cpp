#include "modules.hpp"

#include <gpuhpc/base/error.hpp>
#include <gpuhpc/io/atomic_file.hpp>
#include <gpuhpc/io/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "config_keys.hpp"

namespace gpuhpc {
namespace {

namespace fs = std::filesystem;

// The part of a type name after the last dot: sentence-transformers has moved its modules between
// packages.
std::string_view last_part(std::string_view type) {
  return type.substr(type.find_last_of('.') + 1);
}

Pooling parse_pooling_mode(const std::string& name, const Keys& keys) {
  if (name == "mean") return Pooling::mean;
  if (name == "cls") return Pooling::cls;
  if (name == "max") return Pooling::max;
  if (name == "lasttoken") return Pooling::last;
  throw input_error(
      "{}: pooling \"{}\" is not supported; supported are mean, cls, max and lasttoken",
      keys.file(), name);
}

// Either {"pooling_mode": "mean"} or the older {"pooling_mode_mean_tokens": true, ...}.
void read_pooling(const fs::path& file, std::int64_t width, EmbeddingConfig& embedding) {
  const Keys keys(file);
  for (const char* key : {"word_embedding_dimension", "embedding_dimension"}) {
    if (keys.has(key) && keys.integer(key, 1, 1 << 20) != width) {
      throw input_error("{}: \"{}\" is {} but the encoder's hidden_size is {}", keys.file(), key,
                        keys.integer(key, 1, 1 << 20), width);
    }
  }
  std::vector<std::string> modes;
  if (keys.has("pooling_mode")) {
    const Json& value = keys.at("pooling_mode");
    if (value.is_string())
      modes.push_back(value.get<std::string>());
    else if (value.is_array() && std::all_of(value.begin(), value.end(),
                                             [](const Json& mode) { return mode.is_string(); })) {
      modes = value.get<std::vector<std::string>>();
    } else
      throw input_error("{}: \"pooling_mode\" must be a text or a list of texts", keys.file());
  } else {
    const std::pair<const char*, const char*> old_names[] = {
        {"pooling_mode_cls_token", "cls"},
        {"pooling_mode_max_tokens", "max"},
        {"pooling_mode_mean_tokens", "mean"},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
        {"pooling_mode_weightedmean_tokens", "weightedmean"},
        {"pooling_mode_lasttoken", "lasttoken"}};
    for (const auto& [key, mode] : old_names)  // the mean is sentence-transformers' default
      if (keys.has(key) ? keys.flag(key) : std::string_view(mode) == "mean")
        modes.emplace_back(mode);
  }
  if (modes.size() != 1)
    throw input_error("{}: exactly one pooling mode must be chosen, not {}", keys.file(),
                      modes.size());
  embedding.pooling = parse_pooling_mode(modes.front(), keys);
  embedding.pools_prompt = !keys.has("include_prompt") || keys.flag("include_prompt");
}

// "1_Pooling" and the like: a folder inside the model folder, never outside it.
fs::path module_folder(const fs::path& folder, const std::string& name,
                       const fs::path& modules_file) {
  const fs::path relative(name);
  if (relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), "..") != relative.end()) {
    throw input_error("{}: the path \"{}\" leaves the model folder", modules_file.string(), name);
  }
  return name.empty() ? folder : folder / relative;
}

// The names that sentence-transformers writes.
constexpr std::array<std::pair<DenseActivation, std::string_view>, 4> activations{
    {{DenseActivation::identity, "torch.nn.modules.linear.Identity"},
     {DenseActivation::tanh, "torch.nn.modules.activation.Tanh"},
     {DenseActivation::relu, "torch.nn.modules.activation.ReLU"},
     {DenseActivation::gelu, "torch.nn.modules.activation.GELU"}}};

DenseActivation parse_dense_activation(const Keys& keys) {
  const std::string name = keys.text("activation_function", "torch.nn.modules.activation.Tanh");
  for (const auto& [activation, known] : activations)
    if (name.starts_with("torch.") && last_part(name) == last_part(known)) return activation;
  throw input_error(
      "{}: the activation_function \"{}\" is not supported; supported are torch's Identity, Tanh, "
      "ReLU and GELU",
      keys.file(), name);
}

// A Dense module on vectors of `width` columns.
DenseConfig read_dense(const fs::path& folder, DenseConfig dense, std::int64_t width) {
  const Keys keys(folder / dense.folder / "config.json");
  dense.inputs = keys.integer("in_features", 1, 1 << 16);
  dense.outputs = keys.integer("out_features", 1, 1 << 16);
  dense.bias = !keys.has("bias") || keys.flag("bias");
  dense.activation = parse_dense_activation(keys);
  if (dense.inputs != width)
    throw input_error("{}: \"in_features\" is {} but the module before gives {} values",
                      keys.file(), dense.inputs, width);
  for (const char* key : {"module_input_name", "module_output_name"})
    if (keys.text(key, "sentence_embedding") != "sentence_embedding")
      throw input_error("{}: \"{}\" is \"{}\"; supported is sentence_embedding", keys.file(), key,
                        keys.text(key, ""));
  if (keys.flag("use_residual"))
    throw input_error("{}: \"use_residual\" is true, which is not supported", keys.file());
  return dense;
}

}  // namespace

Modules read_modules(const fs::path& folder) {
  const fs::path file = folder / "modules.json";
  const Json modules = read_json(file);
  if (!modules.is_array()) throw input_error("{}: a list of modules is expected", file.string());
  Modules list;
  bool transformer = false;
  for (const Json& module : modules) {
    const bool whole = module.is_object() && module.contains("type") &&
                       module["type"].is_string() && module.contains("path") &&
                       module["path"].is_string();
    if (!whole)
      throw input_error("{}: every module needs the texts \"type\" and \"path\"", file.string());
    const std::string type = module["type"].get<std::string>();
    const std::string name = module["path"].get<std::string>();
    const fs::path place = module_folder(folder, name, file);
    const bool known = last_part(type) == "Transformer" || last_part(type) == "Pooling" ||
                       last_part(type) == "Dense";
    if (last_part(type) == "Transformer" && !transformer) {
      list.transformer = place;
      transformer = true;
    } else if (last_part(type) == "Pooling" && list.pooling.empty() && list.dense.empty() &&
               !list.normalise) {
      list.pooling = place;
    } else if (last_part(type) == "Dense" && !list.pooling.empty()) {
      list.dense.push_back({.folder = name, .unit_inputs = list.normalise});
      list.normalise = false;
    } else if (last_part(type) == "Normalize") {
      list.normalise = true;
    } else {
      throw input_error(
          "{}: the module \"{}\" is not supported{}; supported are one Transformer, one Pooling, "
          "then Dense and Normalize",
          file.string(), type, known ? " in this place" : "");
    }
  }
  if (!transformer) throw input_error("{}: no Transformer module is listed", file.string());
  return list;
}

EmbeddingConfig read_embedding(const Modules& modules, const fs::path& folder,
                               std::int64_t hidden) {
  EmbeddingConfig embedding;
  if (!modules.pooling.empty()) read_pooling(modules.pooling / "config.json", hidden, embedding);
  for (const DenseConfig& dense : modules.dense)
    embedding.dense.push_back(read_dense(folder, dense, embedding.width(hidden)));
  embedding.normalise = modules.normalise;
  return embedding;
}

// Old type names: every version reads them.
void write_modules(const fs::path& folder, const EmbeddingConfig& embedding, std::int64_t hidden) {
  nlohmann::ordered_json modules = nlohmann::ordered_json::array();
  const auto add = [&](const std::string& path, const char* type) {
    const auto index = modules.size();
    modules.push_back({{"idx", index},
                       {"name", std::to_string(index)},
                       {"path", path},
                       {"type", std::string("sentence_transformers.models.") + type}});
  };
  add("", "Transformer");
  add("1_Pooling", "Pooling");
  const auto add_normalise = [&] { add(fmt::format("{}_Normalize", modules.size()), "Normalize"); };
  for (const DenseConfig& dense : embedding.dense) {
    if (dense.unit_inputs) add_normalise();
    add(dense.folder, "Dense");
    const auto* const named = std::ranges::find(activations, dense.activation,
                                                [](const auto& entry) { return entry.first; });
    create_folder(folder / dense.folder);
    write_json(folder / dense.folder / "config.json",
               nlohmann::ordered_json{{"in_features", dense.inputs},
                                      {"out_features", dense.outputs},
                                      {"bias", dense.bias},
                                      {"activation_function", named->second}});
  }
  if (embedding.normalise) add_normalise();
  write_json(folder / "modules.json", modules);
  // BERT's pooler head is no sentence-transformers pooling; the first token is what it reads.
  const bool cls = reads_first_token(embedding.pooling);
  create_folder(folder / "1_Pooling");
  write_json(
      folder / "1_Pooling" / "config.json",
      nlohmann::ordered_json{{"word_embedding_dimension", hidden},
                             {"pooling_mode_cls_token", cls},
                             {"pooling_mode_mean_tokens", embedding.pooling == Pooling::mean},
                             {"pooling_mode_max_tokens", embedding.pooling == Pooling::max},
                             {"pooling_mode_mean_sqrt_len_tokens", false},
                             {"pooling_mode_weightedmean_tokens", false},
                             {"pooling_mode_lasttoken", embedding.pooling == Pooling::last},
                             {"include_prompt", embedding.pools_prompt}});
  write_json(
      folder / "sentence_bert_config.json",
      nlohmann::ordered_json{{"max_seq_length", embedding.max_tokens}, {"do_lower_case", false}});
}

}  // namespace gpuhpc
