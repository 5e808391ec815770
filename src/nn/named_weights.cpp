#include "named_weights.hpp"

#include <gpuhpc/base/error.hpp>

#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace gpuhpc {
namespace {

// The name as the encoder knows it: without model prefix, gamma/beta of old checkpoints as
// weight/bias.
std::string plain_name(std::string_view name) {
  for (const std::string_view prefix : {"bert.", "roberta.", "deberta.", "mpnet.", "model."}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  std::string result(name);
  if (result.ends_with("LayerNorm.gamma")) result.replace(result.size() - 5, 5, "weight");
  if (result.ends_with("LayerNorm.beta")) result.replace(result.size() - 4, 4, "bias");
  return result;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

bool interleaved(const EncoderConfig& config, std::string_view name) {
  return config.relative && config.relative->fused_projections && name.ends_with(".in_proj.weight");
}

}  // namespace

at::Tensor in_file_order(const EncoderConfig& config, std::string_view name,
                         const at::Tensor& value) {
  if (!interleaved(config, name)) return value;
  return value.view({3, config.heads, config.head_size(), config.hidden_size})
      .transpose(0, 1)
      .reshape(value.sizes());
}

NamedWeights::NamedWeights(const std::filesystem::path& folder, const EncoderConfig& config)
    : folder_(folder), config_(config), weights_(folder) {
  for (const std::string& name : weights_.names()) {
    // Checkpoints of DeBERTa without a position table may still carry one.
    if (!config.position_table && name.ends_with("embeddings.position_embeddings.weight")) continue;
    const auto [place, fresh] = by_name_.emplace(plain_name(name), weights_.find(name));
    if (!fresh)
      throw input_error("{}: \"{}\" and \"{}\" are the same weight", weights_.path().string(),
                        place->second->name, name);
  }
}

const TensorView& NamedWeights::tensor_of(const NamedParameter& parameter) const {
  const auto found = by_name_.find(parameter.name);
  if (found == by_name_.end())
    throw input_error("{}: the weight \"{}\" is missing; are config.json and weights of one model?",
                      weights_.path().string(), parameter.name);
  const TensorView& tensor = *found->second;
  const auto wanted = parameter.value.sizes();
  if (!std::equal(wanted.begin(), wanted.end(), tensor.shape.begin(), tensor.shape.end())) {
    const bool words = parameter.name == word_table(config_);
    throw input_error("{}: {}\"{}\" has shape {} but {} asks for {}", weights_.path().string(),
                      words ? "a vocabulary that does not fit the weights: " : "", tensor.name,
                      shape_text(tensor.shape), (folder_ / "config.json").string(),
                      shape_text(wanted));
  }
  return tensor;
}

bool NamedWeights::same_bytes(std::string_view one, std::string_view other) const {
  const auto a = by_name_.find(one), b = by_name_.find(other);
  return a != by_name_.end() && b != by_name_.end() && a->second->type == b->second->type &&
         std::ranges::equal(a->second->data, b->second->data);
}

void NamedWeights::check(const std::vector<NamedParameter>& parameters) const {
  for (const NamedParameter& parameter : parameters) tensor_of(parameter);
}

void NamedWeights::fill(const std::vector<NamedParameter>& parameters) const {
  for (const NamedParameter& parameter : parameters) {
    const auto wanted = parameter.value.sizes();
    std::vector<float> values = to_floats(tensor_of(parameter));
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
      throw input_error(
          "{}: \"{}\" holds numbers that are not finite; the file is damaged, or its training "
          "diverged: take another copy",
          weights_.path().string(), parameter.name);
    at::Tensor given = at::from_blob(values.data(), wanted, at::TensorOptions().dtype(at::kFloat));
    if (interleaved(config_, parameter.name))
      given = given.view({config_.heads, 3, config_.head_size(), config_.hidden_size})
                  .transpose(0, 1)
                  .reshape(wanted);
    parameter.value.copy_(given);
  }
}

void NamedWeights::refuse_strangers(std::span<const NamedParameter> parameters,
                                    std::span<const std::string_view> left_aside) const {
  for (const auto& [name, tensor] : by_name_) {
    const std::string& known = name;
    const auto is_it = [&](const NamedParameter& parameter) { return parameter.name == known; };
    const auto begins = [&](std::string_view prefix) {
      return std::string_view(known).starts_with(prefix);
    };
    if (std::any_of(left_aside.begin(), left_aside.end(), begins) ||
        std::any_of(parameters.begin(), parameters.end(), is_it))
      continue;
    throw input_error(
        "{}: the weight \"{}\" has no place in a {} model of {} layers; config.json and weights "
        "do not belong together",
        weights_.path().string(), tensor->name, config_.model_type, config_.layers);
  }
}

}  // namespace gpuhpc
