#include "gpuhpc/nn/masked_language_model.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "config_keys.hpp"
#include "named_weights.hpp"
#include "plain_layer.hpp"

namespace gpuhpc {
namespace {

// ModernBERT's config.json can ask for another head than its published models have.
void refuse_other_heads(const std::filesystem::path& folder, const EncoderConfig& encoder) {
  if (!encoder.modern) return;
  const Keys keys(folder / "config.json");
  if (keys.text("classifier_activation", "gelu") != "gelu" || keys.flag("classifier_bias") ||
      (keys.has("decoder_bias") && !keys.flag("decoder_bias")))
    throw input_error(
        "{}: \"classifier_activation\", \"classifier_bias\" or \"decoder_bias\" is not as in "
        "ModernBERT-base; supported are gelu, false and true",
        keys.file());
}

}  // namespace

std::pair<std::int64_t, std::int64_t> new_bert_size(const std::string& name) {
  if (name == "small") return {4, 256};
  return name == "medium" ? std::pair<std::int64_t, std::int64_t>{12, 768}
                          : std::pair<std::int64_t, std::int64_t>{24, 1024};
}

MaskedLanguageHead::MaskedLanguageHead(const EncoderConfig& encoder, std::uint64_t seed,
                                       at::Device device)
    : activation_(encoder.activation), epsilon_(encoder.layer_norm_epsilon) {
  const std::int64_t hidden = encoder.hidden_size;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    parameters_.push_back(
        {name, at::zeros(shape, at::TensorOptions().dtype(at::kFloat).device(device))});
  };
  const bool bert = encoder.model_type == "bert" || encoder.model_type.starts_with("deberta");
  if (!bert) activation_ = Activation::gelu;  // whatever its layers have
  const std::string dense = encoder.modern ? "head.dense"
                            : bert         ? "cls.predictions.transform.dense"
                                           : "lm_head.dense",
                    norm = encoder.modern ? "head.norm"
                           : bert         ? "cls.predictions.transform.LayerNorm"
                                          : "lm_head.layer_norm";
  add(dense + ".weight", {hidden, hidden});
  if (!encoder.modern) add(dense + ".bias", {hidden});
  add(norm + ".weight", {hidden});
  if (!encoder.modern) add(norm + ".bias", {hidden});
  add(encoder.modern ? "decoder.bias"
      : bert         ? "cls.predictions.bias"
                     : "lm_head.bias",
      {encoder.vocabulary_size});
  initialise(
      parameters_, [&](const std::string&) { return encoder.initializer_range; }, seed);
  for (NamedParameter& parameter : parameters_) parameter.value.set_requires_grad(true);
}

bool MaskedLanguageHead::load(const std::filesystem::path& weights_folder,
                              const EncoderConfig& encoder) {
  refuse_other_heads(weights_folder, encoder);
  const NamedWeights weights(weights_folder, encoder);
  if (!weights.has(parameters_.front().name)) return false;
  const at::NoGradGuard no_grad;
  weights.fill(parameters_);
  return true;
}

at::Tensor MaskedLanguageHead::logits(const at::Tensor& hidden, const at::Tensor& words,
                                      const ForwardOptions& options) const {
  // Weight and bias of two layers, and the words' bias; ModernBERT has no biases but the last.
  const bool biases = parameters_.size() > 3;
  const auto value = [&](std::size_t i) {
    if (biases) return parameters_[i].value;
    return i == 1 || i == 3 ? at::Tensor() : parameters_[i / 2].value;
  };
  const at::Tensor dense =
      activate(mixed_linear(hidden, value(0), value(1), options.compute), activation_);
  const at::Tensor normed =
      at::layer_norm(dense.to(at::kFloat), {hidden.size(1)}, value(2), value(3), epsilon_);
  return mixed_linear(normed, words, value(4), options.compute);
}

MaskedLanguageModel MaskedLanguageModel::load(const std::filesystem::path& folder,
                                              std::uint64_t seed, at::Device device) {
  LoadedEncoder base = load_encoder(folder, device);
  MaskedLanguageHead head(base.encoder.config(), seed, device);
  const bool found = head.load(base.model.weights_folder, base.encoder.config());
  return {std::move(base), std::move(head), !found};
}

at::Tensor MaskedLanguageModel::logits(const PackedTokens& batch,
                                       std::span<const std::int64_t> places,
                                       const ForwardOptions& options) const {
  const at::Tensor rows = to_device(at::tensor(places), base.encoder.device());
  return head.logits(base.encoder.forward(batch, options).index_select(0, rows),
                     base.encoder.parameter(word_table(base.encoder.config())), options);
}

at::Tensor MaskedLanguageModel::loss(const PackedTokens& batch,
                                     std::span<const std::int64_t> places,
                                     std::span<const std::int64_t> targets,
                                     const ForwardOptions& options) const {
  return at::cross_entropy_loss(logits(batch, places, options).to(at::kFloat),
                                to_device(at::tensor(targets), base.encoder.device()), {},
                                at::Reduction::Sum);
}

void MaskedLanguageModel::save(const std::filesystem::path& folder) const {
  save_headed_folder(folder, base.encoder, head.parameters(), "ForMaskedLM",
                     nlohmann::ordered_json::object(), base.model);
  if (base.model.sentence_transformers)
    save_modules(folder, base.encoder, base.model.embedding, base.model);
}

}  // namespace gpuhpc
