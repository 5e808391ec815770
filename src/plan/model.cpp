#include "gpuhpc/plan/model.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/nn/masked_language_model.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

struct PublishedEncoder {
  const char *name, *type;
  std::int64_t vocabulary, hidden, layers;
  bool pooler = true;
};
// Heads of 64 (MiniLM: of 32), four times the width in between. small, medium and large are what
// `pretrain` makes.
constexpr PublishedEncoder encoders[] = {
    {"bert-base", "bert", 30522, 768, 12},
    {"bert-large", "bert", 30522, 1024, 24},
    {"minilm-l6", "bert", 30522, 384, 6},
    {"roberta-base", "roberta", 50265, 768, 12},
    {"roberta-large", "roberta", 50265, 1024, 24},
    {"mpnet-base", "mpnet", 30527, 768, 12},
    {"deberta-v3-base", "deberta-v2", 128100, 768, 12, false},
    {"deberta-v3-large", "deberta-v2", 128100, 1024, 24, false},
    {"small", "bert", 30000, 0, 0, false},
    {"medium", "bert", 30000, 0, 0, false},
    {"large", "bert", 30000, 0, 0, false},
};

struct PublishedModern {
  const char* name;
  std::int64_t hidden, wide, layers;
};
constexpr PublishedModern moderns[] = {{"modernbert-base", 768, 1152, 22},
                                       {"modernbert-large", 1024, 2624, 28}};

struct PublishedT5 {
  const char *name, *type;
  std::int64_t hidden, wide, layers, heads;
};
constexpr PublishedT5 t5s[] = {
    {"t5-small", "t5", 512, 2048, 6, 8},         {"t5-base", "t5", 768, 3072, 12, 12},
    {"t5-large", "t5", 1024, 4096, 24, 16},      {"flan-t5-small", "flan", 512, 1024, 8, 6},
    {"flan-t5-base", "flan", 768, 2048, 12, 12}, {"flan-t5-large", "flan", 1024, 2816, 24, 16},
    {"mt5-small", "mt5", 512, 1024, 8, 6},       {"mt5-base", "mt5", 768, 2048, 12, 12},
    {"mt5-large", "mt5", 1024, 2816, 24, 16},
};

EncoderConfig config_of(const PublishedEncoder& p, std::int64_t vocabulary) {
  EncoderConfig c;
  c.model_type = p.type;
  const bool bert = c.model_type == "bert", deberta = c.model_type == "deberta-v2";
  c.hidden_size = p.hidden, c.layers = p.layers;
  if (c.hidden_size == 0) std::tie(c.layers, c.hidden_size) = new_bert_size(p.name);
  c.vocabulary_size = vocabulary > 0 ? vocabulary : p.vocabulary;
  c.heads = c.hidden_size / (c.hidden_size == 384 ? 32 : 64);
  c.intermediate_size = 4 * c.hidden_size;
  c.position_offset = bert || deberta ? 0 : 2;
  c.position_rows = bert || deberta ? 512 : 514;
  c.position_table = !deberta;
  c.token_types = bert ? 2 : c.model_type == "roberta" ? 1 : 0;
  if (deberta) {
    RelativeAttention relative;
    relative.farthest = 512, relative.buckets = 256;
    relative.shared_projections = relative.normalised = true;
    c.relative = relative;
  }
  if (c.model_type == "mpnet") c.distances = DistanceBuckets{};
  return c;
}

EncoderConfig config_of(const PublishedModern& p, std::int64_t vocabulary) {
  EncoderConfig c;
  c.model_type = "modernbert";
  c.vocabulary_size = vocabulary > 0 ? vocabulary : 50368;
  c.hidden_size = p.hidden, c.layers = p.layers, c.heads = p.hidden / 64;
  c.intermediate_size = p.wide, c.position_rows = 8192, c.position_table = false;
  c.hidden_dropout = c.attention_dropout = 0;
  ModernLayers modern;
  for (std::int64_t i = 0; i < p.layers; ++i) modern.local.push_back(i % 3 != 0);
  c.modern = std::move(modern);
  return c;
}

T5Config config_of(const PublishedT5& p, std::int64_t vocabulary) {
  T5Config c;
  const std::string type = p.type;
  c.model_type = type == "mt5" ? "mt5" : "t5";
  c.vocabulary_size = vocabulary > 0 ? vocabulary : type == "mt5" ? 250112 : 32128;
  c.hidden_size = p.hidden, c.head_size = 64, c.heads = p.heads, c.intermediate_size = p.wide;
  c.layers = c.decoder_layers = p.layers;
  c.gated = type != "t5";
  c.tied_head = c.scaled_head = !c.gated;
  if (c.gated) c.activation = Activation::gelu_tanh;
  return c;
}

std::string family_of(const fs::path& config_file) {
  const Json config = read_json(config_file);
  const bool told =
      config.is_object() && config.contains("model_type") && config["model_type"].is_string();
  if (!told)
    throw input_error("{}: the key \"model_type\" is missing; give a model's config.json",
                      config_file.string());
  return config["model_type"].get<std::string>();
}

}  // namespace

std::int64_t PlannedModel::vocabulary() const {
  return is_t5() ? t5().vocabulary_size : encoder().vocabulary_size;
}
std::int64_t PlannedModel::hidden() const {
  return is_t5() ? t5().hidden_size : encoder().hidden_size;
}

std::vector<std::string> published_models() {
  std::vector<std::string> names;
  for (const PublishedEncoder& p : encoders) names.emplace_back(p.name);
  for (const PublishedModern& p : moderns) names.emplace_back(p.name);
  for (const PublishedT5& p : t5s) names.emplace_back(p.name);
  return names;
}

PlannedModel planned_model(const std::string& name, std::int64_t vocabulary) {
  for (const PublishedEncoder& p : encoders)
    if (name == p.name) return {name, config_of(p, vocabulary), p.pooler};
  for (const PublishedModern& p : moderns)
    if (name == p.name) return {name, config_of(p, vocabulary)};
  for (const PublishedT5& p : t5s)
    if (name == p.name) return {name, config_of(p, vocabulary)};
  if (!fs::exists(name))
    throw usage_error(
        "--plan.model {}: no such folder or config.json, and no published model; those are {}",
        name, fmt::join(published_models(), ", "));
  const bool folder = fs::is_directory(name);
  if (folder && fs::exists(fs::path(name) / "modules.json"))
    return {name, read_model_folder(name).encoder};
  const fs::path file = folder ? fs::path(name) / "config.json" : fs::path(name);
  const std::string family = family_of(file);
  if (family == "t5" || family == "mt5") return {name, read_t5_config(file)};
  return {name, read_encoder_config(file)};
}

std::int64_t count_of(const NamedShape& shape) {
  return std::accumulate(shape.shape.begin(), shape.shape.end(), std::int64_t{1},
                         std::multiplies<>());
}

std::vector<NamedShape> planned_shapes(const PlannedModel& model, bool masked_head) {
  if (model.is_t5()) return t5_shapes(model.t5());
  std::vector<NamedShape> shapes;
  const auto add = [&](const std::vector<NamedParameter>& parameters) {
    for (const NamedParameter& p : parameters) shapes.push_back({p.name, p.value.sizes().vec()});
  };
  add(Encoder(model.encoder(), at::kMeta, model.pooler && !masked_head).parameters());
  if (masked_head) add(MaskedLanguageHead(model.encoder(), 1, at::kMeta).parameters());
  return shapes;
}

std::int64_t parameter_count(const PlannedModel& model, bool masked_head) {
  std::int64_t sum = 0;
  for (const NamedShape& shape : planned_shapes(model, masked_head)) sum += count_of(shape);
  return sum;
}

}  // namespace gpuhpc
