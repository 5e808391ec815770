#include <gpuhpc/nn/sequence_classifier.hpp>

#include <gpuhpc/base/error.hpp>

#include <ATen/ops/gelu.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include "config_keys.hpp"
#include "named_weights.hpp"

namespace gpuhpc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view entailment = "entailment";
constexpr std::int64_t most_labels = 1 << 16;

// Heads of the pretraining and buffers that hold no weights. (RoBERTa's own pooler: beside the
// classifier it is not used.)
constexpr std::array<std::string_view, 6> heads_left_aside = {"cls.",
                                                              "lm_head.",
                                                              "lm_predictions.",
                                                              "mask_predictions.",
                                                              "embeddings.position_ids",
                                                              "embeddings.token_type_ids"};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::optional<std::int64_t> place_of(const std::vector<std::string>& labels,
                                     std::string_view wanted) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (lower(labels[i]) == wanted) return static_cast<std::int64_t>(i);
  return std::nullopt;
}

// {"0": "CONTRADICTION", ...} or, turned round, {"CONTRADICTION": 0, ...}: each place exactly once.
std::vector<std::string> read_label_map(const Keys& keys, const char* key, bool by_name) {
  const Json& given = keys.at(key);
  const auto refuse = [&] {
    return input_error("{}: \"{}\" must give each of the places 0 to n - 1 one name", keys.file(),
                       key);
  };
  if (!given.is_object() || given.empty() || std::ssize(given) > most_labels) throw refuse();
  std::vector<std::optional<std::string>> names(given.size());
  for (const auto& [first, second] : given.items()) {
    const std::string number = by_name ? second.dump() : first;
    if (by_name ? !second.is_number_integer() : !second.is_string()) throw refuse();
    const bool digits =
        !number.empty() && number.size() <= 6 &&
        std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c); });
    const std::size_t place = digits ? std::stoul(number) : names.size();
    if (place >= names.size() || names[place]) throw refuse();
    names[place] = by_name ? first : second.get<std::string>();
  }
  std::vector<std::string> result;
  for (const auto& name : names) result.push_back(*name);
  return result;
}

std::vector<std::string> read_labels(const Keys& keys) {
  if (keys.has("id2label")) {
    const std::vector<std::string> labels = read_label_map(keys, "id2label", false);
    if (!keys.has("label2id")) return labels;
    // The reverse map may lack names that id2label has twice, but it must not contradict it where
    // it matters.
    const Json& reverse = keys.at("label2id");
    for (std::size_t i = 0; reverse.is_object() && i < labels.size(); ++i)
      if (lower(labels[i]) == entailment && reverse.contains(labels[i]) && reverse[labels[i]] != i)
        throw input_error("{}: \"id2label\" puts \"{}\" at {}, \"label2id\" at {}", keys.file(),
                          labels[i], i, reverse[labels[i]].dump());
    return labels;
  }
  if (keys.has("label2id")) return read_label_map(keys, "label2id", true);
  std::vector<std::string> labels;
  const std::int64_t count =
      keys.has("num_labels") ? keys.integer("num_labels", 1, most_labels) : 2;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

bool has_roberta_head(const std::string& model_type) {
  return model_type == "roberta" || model_type == "xlm-roberta" || model_type == "mpnet";
}

// Names of the dense and the output layer.
std::pair<std::string, std::string> layer_names(const EncoderConfig& encoder) {
  if (encoder.modern)
    throw configuration_error(
        "a classifier on a ModernBERT encoder is not supported; take an encoder of the BERT, "
        "RoBERTa, "
        "MPNet or DeBERTa family");
  if (has_roberta_head(encoder.model_type)) return {"classifier.dense", "classifier.out_proj"};
  return {"pooler.dense", "classifier"};
}

}  // namespace

ClassifierConfig new_classifier_config(const EncoderConfig& encoder,
                                       std::vector<std::string> labels) {
  const bool deberta = encoder.model_type.starts_with("deberta");
  return {std::move(labels), deberta ? HeadActivation::gelu : HeadActivation::tanh,
          has_roberta_head(encoder.model_type)};
}

ClassifierConfig read_classifier_config(const fs::path& config_file) {
  const Keys keys(config_file);
  ClassifierConfig config;
  config.labels = read_labels(keys);
  const std::string type = keys.text("model_type", "");
  if (type == "modernbert")
    throw input_error(
        "{}: \"model_type\" is modernbert, whose classifiers are not supported; take one of the "
        "BERT, "
        "RoBERTa, MPNet or DeBERTa family",
        keys.file());
  config.drops_input = has_roberta_head(type);
  if (!type.starts_with("deberta")) return config;
  const std::string activation = keys.text("pooler_hidden_act", "gelu");
  if (activation != "gelu" && activation != "tanh")
    throw input_error("{}: \"pooler_hidden_act\" is \"{}\"; supported are gelu and tanh",
                      keys.file(), activation);
  config.activation = activation == "gelu" ? HeadActivation::gelu : HeadActivation::tanh;
  return config;
}

ClassificationHead::ClassificationHead(const ClassifierConfig& config, const EncoderConfig& encoder,
                                       at::Device device)
    : activation_(config.activation), drops_input_(config.drops_input) {
  const auto [dense, output] = layer_names(encoder);
  const std::int64_t hidden = encoder.hidden_size, labels = std::ssize(config.labels);
  const auto add = [&](std::string name, std::vector<std::int64_t> shape) {
    parameters_.push_back(
        {std::move(name), at::zeros(shape, at::TensorOptions().dtype(at::kFloat).device(device))});
  };
  add(dense + ".weight", {hidden, hidden});
  add(dense + ".bias", {hidden});
  add(output + ".weight", {labels, hidden});
  add(output + ".bias", {labels});
}

ClassificationHead::ClassificationHead(const ClassifierConfig& config, const EncoderConfig& encoder,
                                       std::uint64_t seed, at::Device device)
    : ClassificationHead(config, encoder, device) {
  initialise(
      parameters_, [](const std::string&) { return .02; }, seed);
  for (NamedParameter& parameter : parameters_) parameter.value.set_requires_grad(true);
}

at::Tensor ClassificationHead::logits(const at::Tensor& first_tokens,
                                      const ForwardOptions& options) const {
  const auto dropped = [&](const at::Tensor& x) {
    return seeded_dropout(x, options.hidden_dropout, options.generator);
  };
  const auto linear = [&](const at::Tensor& x, std::size_t i) {
    return mixed_linear(x, parameters_[i].value, parameters_[i + 1].value, at::kFloat);
  };
  const at::Tensor dense = linear(drops_input_ ? dropped(first_tokens) : first_tokens, 0);
  return linear(dropped(activation_ == HeadActivation::tanh ? at::tanh(dense) : at::gelu(dense)),
                2);
}

SequenceClassifier::SequenceClassifier(ModelFolder model, ClassifierConfig config,
                                       at::Device device)
    : model_(std::move(model)),
      config_(std::move(config)),
      encoder_(model_.encoder, device),
      head_(config_, model_.encoder, device) {}

SequenceClassifier SequenceClassifier::load(const fs::path& folder, at::Device device) {
  ModelFolder model = read_model_folder(folder);
  ClassifierConfig config = read_classifier_config(model.weights_folder / "config.json");
  const NamedWeights weights(model.weights_folder, model.encoder);
  const ClassificationHead head(config, model.encoder, at::kMeta);
  std::vector<NamedParameter> shapes = Encoder(model.encoder, at::kMeta).parameters();
  const std::string output = head.parameters()[2].name;
  if (!weights.has(output)) {
    throw input_error(
        "{}: the weight \"{}\" is missing; this is an encoder without a classifier: give a folder "
        "of a model trained for sequence classification",
        weights.file(), output);
  }
  shapes.insert(shapes.end(), head.parameters().begin(), head.parameters().end());
  weights.check(shapes);
  std::vector<std::string_view> aside(heads_left_aside.begin(), heads_left_aside.end());
  if (config.drops_input) aside.push_back("pooler.");
  weights.refuse_strangers(shapes, aside);
  SequenceClassifier classifier(std::move(model), std::move(config), device);
  weights.fill(classifier.encoder_.parameters());
  weights.fill(classifier.head_.parameters());
  return classifier;
}

at::Tensor SequenceClassifier::logits(const PackedTokens& batch,
                                      const ForwardOptions& options) const {
  return head_.logits(encoder_.first_tokens(batch, options), options);
}

std::int64_t SequenceClassifier::entailment_label() const {
  if (const auto place = place_of(config_.labels, entailment)) return *place;
  const std::vector<std::string> some(
      config_.labels.begin(),
      config_.labels.begin() + std::min<std::ptrdiff_t>(std::ssize(config_.labels), 8));
  throw input_error(
      "{}: no entailment label (\"id2label\" has {}); give a model trained for natural-language "
      "inference, or name its label \"entailment\" there",
      (model_.weights_folder / "config.json").string(), fmt::join(some, ", "));
}

std::int64_t SequenceClassifier::parameter_count() const {
  std::int64_t count = 0;
  for (const NamedParameter& parameter : encoder_.parameters()) count += parameter.value.numel();
  for (const NamedParameter& parameter : head_.parameters()) count += parameter.value.numel();
  return count;
}

}  // namespace gpuhpc
