#include <gpuhpc/nn/encoder.hpp>

#include <gpuhpc/base/error.hpp>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cpu_layer.hpp"
#include "modern_layer.hpp"
#include "plain_layer.hpp"

namespace gpuhpc {
namespace {

// (B) int64: the rows of the documents' first tokens.
at::Tensor firsts(const PackedTokens& batch) {
  return batch.cumulative.narrow(0, 0, batch.documents()).to(at::kLong);
}

}  // namespace

Encoder::Encoder(EncoderConfig config, at::Device device, bool pooler)
    : config_(std::move(config)), device_(device) {
  const std::int64_t hidden = config_.hidden_size;
  add_embeddings();
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    layer_starts_.push_back(parameters_.size());
    if (config_.modern)
      add_modern_layer(layer);
    else
      add_layer(layer);
  }
  layer_starts_.push_back(parameters_.size());
  if (config_.modern) add("final_norm.weight", {hidden});
  if (pooler) {
    pooler_ = static_cast<std::int64_t>(parameters_.size());
    add("pooler.dense.weight", {hidden, hidden});
    add("pooler.dense.bias", {hidden});
  }
  train_top_layers(0);
  if (device_.is_cpu() && !config_.relative && !config_.modern) {
    fp32_layers_ = make_cpu_layer_context(config_, at::kFloat);
    bf16_layers_ = make_cpu_layer_context(config_, at::kBFloat16);
  }
}

void Encoder::add_embeddings() {
  const std::int64_t hidden = config_.hidden_size;
  add(word_table(config_), {config_.vocabulary_size, hidden});
  if (config_.modern) return add("embeddings.norm.weight", {hidden});
  if (config_.position_table)
    add("embeddings.position_embeddings.weight", {config_.position_rows, hidden});
  if (config_.token_types > 0)
    add("embeddings.token_type_embeddings.weight", {config_.token_types, hidden});
  add("embeddings.LayerNorm.weight", {hidden});
  add("embeddings.LayerNorm.bias", {hidden});
  if (config_.relative) {
    relative_ = parameters_.size();
    add("encoder.rel_embeddings.weight", {config_.relative->rows(), hidden});
    if (config_.relative->normalised)
      add("encoder.LayerNorm.weight", {hidden}), add("encoder.LayerNorm.bias", {hidden});
    if (config_.relative->fused_projections)
      no_key_bias_ = at::zeros({hidden}, at::TensorOptions().dtype(at::kFloat).device(device_));
  }
  if (config_.distances) {
    relative_ = parameters_.size();
    add("encoder.relative_attention_bias.weight", {config_.distances->count, config_.heads});
  }
}

void Encoder::add_layer(std::int64_t layer) {
  const std::int64_t hidden = config_.hidden_size, wide = config_.intermediate_size;
  const auto named = [&](const char* part, const char* end) {
    return fmt::format("encoder.layer.{}.{}{}", layer, part, end);
  };
  const auto linear = [&](const char* part, std::int64_t out, std::int64_t in) {
    add(named(part, ".weight"), {out, in});
    add(named(part, ".bias"), {out});
  };
  const auto norm = [&](const char* part) {
    add(named(part, ".weight"), {hidden});
    add(named(part, ".bias"), {hidden});
  };
  const bool mpnet = config_.model_type == "mpnet";
  if (config_.relative && config_.relative->fused_projections) {
    add(named("attention.self.in_proj", ".weight"), {3 * hidden, hidden});
    add(named("attention.self.", "q_bias"), {hidden});
    add(named("attention.self.", "v_bias"), {hidden});
    add(named("attention.self.pos_proj", ".weight"), {hidden, hidden});
    linear("attention.self.pos_q_proj", hidden, hidden);
  } else if (config_.relative) {
    for (const char* part :
         {"attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"})
      linear(part, hidden, hidden);
    if (!config_.relative->shared_projections)
      for (const char* part : {"attention.self.pos_key_proj", "attention.self.pos_query_proj"})
        linear(part, hidden, hidden);
  } else if (mpnet) {
    for (const char* part : {"attention.attn.q", "attention.attn.k", "attention.attn.v"})
      linear(part, hidden, hidden);
  } else {
    for (const char* part : {"attention.self.query", "attention.self.key", "attention.self.value"})
      linear(part, hidden, hidden);
  }
  linear(mpnet ? "attention.attn.o" : "attention.output.dense", hidden, hidden);
  norm(mpnet ? "attention.LayerNorm" : "attention.output.LayerNorm");
  linear("intermediate.dense", wide, hidden);
  linear("output.dense", hidden, wide);
  norm("output.LayerNorm");
}

// In the order of ModernParameter; the first layer has no norm in front of its attention.
void Encoder::add_modern_layer(std::int64_t layer) {
  const std::int64_t hidden = config_.hidden_size, wide = config_.intermediate_size;
  const auto matrix = [&](const char* part, std::int64_t out, std::int64_t in) {
    add(fmt::format("layers.{}.{}.weight", layer, part), {out, in});
  };
  const auto norm = [&](const char* part) {
    add(fmt::format("layers.{}.{}.weight", layer, part), {hidden});
  };
  matrix("attn.Wqkv", 3 * hidden, hidden);
  matrix("attn.Wo", hidden, hidden);
  norm("mlp_norm");
  matrix("mlp.Wi", 2 * wide, hidden);
  matrix("mlp.Wo", hidden, wide);
  if (layer > 0) norm("attn_norm");
}

std::vector<at::Tensor> Encoder::layer(std::int64_t index) const {
  const auto place = static_cast<std::size_t>(index);
  const std::size_t first = layer_starts_.at(place), size = layer_starts_.at(place + 1) - first;
  const auto part = [&](std::size_t from, std::size_t count) {
    std::vector<at::Tensor> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(value(first + from + i));
    return values;
  };
  if (config_.modern) return part(0, size);
  std::vector<at::Tensor> result, positions;
  if (config_.relative && config_.relative->fused_projections) {
    const auto qkv = value(first).chunk(3);
    result = {qkv[0], value(first + 1), qkv[1], no_key_bias_, qkv[2], value(first + 2)};
    positions = {value(first + 3), no_key_bias_, value(first + 4), value(first + 5)};
  } else {
    result = part(0, 6);
    positions = part(6, size - layer_parameters);
  }
  for (const at::Tensor& tensor : part(size - 10, 10)) result.push_back(tensor);
  result.insert(result.end(), positions.begin(), positions.end());
  return result;
}

at::Tensor Encoder::position_vectors() const {
  const at::Tensor& table = value(relative_);
  if (!config_.relative->normalised) return table;
  return at::layer_norm(table, {config_.hidden_size}, value(relative_ + 1), value(relative_ + 2),
                        config_.layer_norm_epsilon);
}

void Encoder::add(std::string name, std::vector<std::int64_t> shape) {
  parameters_.push_back(
      {std::move(name), at::zeros(shape, at::TensorOptions().dtype(at::kFloat).device(device_))});
}

void Encoder::add_dense(const std::vector<DenseConfig>& modules) {
  dense_ = {parameters_.size()};
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const DenseConfig& dense = modules[i];
    add(fmt::format("dense.{}.linear.weight", i), {dense.outputs, dense.inputs});
    if (dense.bias) add(fmt::format("dense.{}.linear.bias", i), {dense.outputs});
    dense_.push_back(parameters_.size());
  }
}

std::vector<NamedParameter> Encoder::dense(std::size_t i) const {
  if (i >= dense_count()) throw internal_error("the encoder has no Dense module {}", i);
  std::vector<NamedParameter> linear{{"linear.weight", value(dense_[i])}};
  if (dense_[i + 1] - dense_[i] > 1) linear.push_back({"linear.bias", value(dense_[i] + 1)});
  return linear;
}

const at::Tensor& Encoder::parameter(std::string_view name) const {
  for (const NamedParameter& parameter : parameters_) {
    if (parameter.name == name) return parameter.value;
  }
  throw internal_error("the encoder has no parameter \"{}\"", name);
}

bool Encoder::has_parameter(std::string_view name) const {
  for (const NamedParameter& parameter : parameters_) {
    if (parameter.name == name) return true;
  }
  return false;
}

void Encoder::initialise(std::uint64_t seed) {
  gpuhpc::initialise(
      parameters_, [&](const std::string&) { return config_.initializer_range; }, seed);
  const at::NoGradGuard no_grad;
  if (config_.padding_id < config_.vocabulary_size)
    parameter(word_table(config_))[config_.padding_id].zero_();
  if (config_.position_offset > 0)
    parameter("embeddings.position_embeddings.weight")[config_.padding_id].zero_();
}

void Encoder::rebind(std::size_t i, at::Tensor storage) {
  NamedParameter& parameter = parameters_.at(i);
  if (storage.sizes() != parameter.value.sizes() || storage.scalar_type() != at::kFloat ||
      !storage.is_leaf()) {
    throw internal_error("{}: other storage must be an fp32 leaf of the same shape",
                         parameter.name);
  }
  storage.set_requires_grad(parameter.value.requires_grad());
  parameter.value = std::move(storage);
}

void Encoder::train_top_layers(std::int64_t count) {
  first_trained_ = count < 0 ? -1 : std::max<std::int64_t>(0, config_.layers - count);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::int64_t layer =
        std::ranges::upper_bound(layer_starts_, i) - layer_starts_.begin() - 1;
    parameters_[i].value.set_requires_grad(count != 0 && layer >= first_trained_);
  }
}

void Encoder::check(const PackedTokens& batch) const {
  if (batch.max_len > config_.max_tokens()) {
    throw input_error(
        "a document of {} tokens does not fit the encoder's {} positions; lower the length limit",
        batch.max_len, config_.max_tokens());
  }
  check_token_ids(batch.token_ids, config_.vocabulary_size);
}

at::Tensor Encoder::embeddings(const PackedTokens& batch, const ForwardOptions& options) const {
  std::size_t next = 0;
  at::Tensor hidden = table_rows(value(next++), batch.token_ids);
  const at::Tensor positions = config_.position_table ? value(next++) : at::Tensor();
  if (config_.token_types > 0) {
    const at::Tensor& types = value(next++);
    hidden = hidden + (batch.segment_ids.defined() ? table_rows(types, batch.segment_ids)
                                                   : types.narrow(0, 0, 1));
  }
  if (config_.modern)
    return seeded_dropout(modern_norm(config_, hidden, value(next)), options.hidden_dropout,
                          options.generator);
  const bool shifted = config_.position_offset != 0;
  if (positions.defined())
    hidden = hidden + table_rows(positions, shifted ? batch.position_ids + config_.position_offset
                                                    : batch.position_ids);
  hidden = at::layer_norm(hidden, {config_.hidden_size}, value(next), value(next + 1),
                          config_.layer_norm_epsilon);
  return seeded_dropout(hidden, options.hidden_dropout, options.generator);
}

void choose_products(at::Device device, const ForwardOptions& options) {
  if (!device.is_cuda()) return;
  at::Context& settings = at::globalContext();
  settings.setAllowTF32CuBLAS(options.tf32);
  // Products in 16 bits add up in fp32; left alone, cuBLAS may add up parts of them in 16 bits.
  settings.setAllowFP16ReductionCuBLAS(false);
  settings.setAllowBF16ReductionCuBLAS(false);
}

at::Tensor Encoder::layers(std::int64_t first, std::int64_t last, at::Tensor hidden,
                           const PackedTokens& batch, const ForwardOptions& options,
                           bool first_tokens) const {
  choose_products(device_, options);
  const at::Tensor all_rows, kept = first_tokens ? firsts(batch) : all_rows;
  if (config_.modern) return modern_layers(first, last, std::move(hidden), batch, options, kept);
  const std::shared_ptr<CpuLayerContext> no_layers;
  const auto& context = options.compute == at::kFloat      ? fp32_layers_
                        : options.compute == at::kBFloat16 ? bf16_layers_
                                                           : no_layers;
  const bool plain = context == nullptr || options.plain_layers;
  at::Tensor positions;  // what all layers share of them
  if (config_.relative) positions = position_vectors();
  if (config_.distances) {
    positions = distance_bias(value(relative_), *config_.distances, bias_reach(batch.max_len));
    if (!plain) positions = positions * std::sqrt(static_cast<double>(config_.head_size()));
  }
  const auto parameters_of = [&](std::int64_t index) {
    std::vector<at::Tensor> result = layer(index);
    if (positions.defined()) result.insert(result.begin() + layer_parameters, positions);
    return result;
  };
  const auto rows_of = [&](std::int64_t index) -> const at::Tensor& {
    return index + 1 == config_.layers ? kept : all_rows;
  };
  if (plain) {
    for (std::int64_t index = first; index < last; ++index) {
      // By value: a checkpointed layer outlives this call.
      const LayerBody body = [config = config_, batch, options, rows = rows_of(index)](
                                 const auto& parameters, const at::Tensor& input) {
        return plain_layer(config, parameters, input, batch, options, rows);
      };
      hidden = options.checkpoint_layers ? checkpointed(body, parameters_of(index), hidden, options)
                                         : body(parameters_of(index), hidden);
    }
    return hidden;
  }
  LayerRows rows{std::move(hidden), {}};
  for (std::int64_t index = first; index < last; ++index)
    rows = cpu_layer(rows, parameters_of(index), batch, context, options, rows_of(index));
  return rows.hidden;
}

at::Tensor Encoder::modern_layers(std::int64_t first, std::int64_t last, at::Tensor hidden,
                                  const PackedTokens& batch, const ForwardOptions& options,
                                  const at::Tensor& firsts) const {
  const ModernLayers& modern = *config_.modern;
  const Rotation global = rotation(batch.position_ids, modern.global_theta, config_.head_size()),
                 local = rotation(batch.position_ids, modern.local_theta, config_.head_size());
  for (std::int64_t index = first; index < last; ++index) {
    const bool near = modern.local[static_cast<std::size_t>(index)];
    // By value: a checkpointed layer outlives this call.
    const LayerBody body = [config = config_, near, batch, options, turn = near ? local : global,
                            rows = index + 1 == config_.layers ? firsts : at::Tensor()](
                               const auto& parameters, const at::Tensor& input) {
      return modern_layer(config, near, turn, parameters, input, batch, options, rows);
    };
    hidden = options.checkpoint_layers ? checkpointed(body, layer(index), hidden, options)
                                       : body(layer(index), hidden);
  }
  if (last < config_.layers) return hidden;
  return modern_norm(config_, hidden, value(layer_starts_.back()));
}

at::Tensor Encoder::forward_frozen(const PackedTokens& batch, const ForwardOptions& options) const {
  check(batch);
  const at::NoGradGuard guard;
  return layers(0, std::max<std::int64_t>(first_trained_, 0), embeddings(batch, options), batch,
                options, false);
}

at::Tensor Encoder::forward(const PackedTokens& batch, const ForwardOptions& options) const {
  return forward(batch, options, false);
}

at::Tensor Encoder::forward(const PackedTokens& batch, const ForwardOptions& options,
                            bool first_tokens) const {
  if (first_trained_ < 0) check(batch);
  at::Tensor hidden =
      first_trained_ < 0 ? embeddings(batch, options) : forward_frozen(batch, options);
  const std::int64_t first = std::max<std::int64_t>(first_trained_, 0);
  if (first < config_.layers)
    return layers(first, config_.layers, std::move(hidden), batch, options, first_tokens);
  return first_tokens ? hidden.index_select(0, firsts(batch)) : hidden;
}

at::Tensor Encoder::first_tokens(const PackedTokens& batch, const ForwardOptions& options) const {
  return forward(batch, options, true);
}

at::Tensor Encoder::pool(const at::Tensor& hidden, const PackedTokens& batch,
                         Pooling pooling) const {
  const auto reduce = [&](c10::string_view how) {
    return at::segment_reduce(hidden, how, std::nullopt, std::nullopt,
                              batch.cumulative.to(at::kLong), 0, /*unsafe=*/true);
  };
  switch (pooling) {
    case Pooling::mean:
      return reduce("mean");
    case Pooling::max:
      return reduce("max");
    case Pooling::last:
      return hidden.index_select(
          0, batch.cumulative.narrow(0, 1, batch.cumulative.size(0) - 1).to(at::kLong) - 1);
    case Pooling::cls:
    case Pooling::pooler:
      return head(hidden.index_select(0, firsts(batch)), pooling);
  }
  throw internal_error("pooling {} is unknown", static_cast<int>(pooling));
}

at::Tensor Encoder::head(const at::Tensor& first_tokens, Pooling pooling) const {
  if (pooling == Pooling::cls) return first_tokens;
  if (!has_pooler())
    throw configuration_error("the weights have no pooler.dense; choose mean, cls or max pooling");
  const auto base = static_cast<std::size_t>(pooler_);
  return at::tanh(mixed_linear(first_tokens, value(base), value(base + 1), at::kFloat));
}

at::Tensor Encoder::embed(const PackedTokens& batch, const EmbeddingConfig& embedding,
                          const ForwardOptions& options) const {
  const bool first_tokens = reads_first_token(embedding.pooling);
  const at::Tensor hidden = forward(batch, options, first_tokens),
                   rows = first_tokens ? head(hidden, embedding.pooling)
                                       : pool(hidden, batch, embedding.pooling);
  return projected(rows, embedding);
}

at::Tensor Encoder::projected(at::Tensor rows, const EmbeddingConfig& embedding) const {
  for (std::size_t i = 0; i < embedding.dense.size(); ++i) {
    const DenseConfig& dense = embedding.dense[i];
    const std::vector<NamedParameter> linear = this->dense(i);
    if (dense.unit_inputs) rows = unit_rows(rows);
    rows = mixed_linear(rows, linear[0].value, dense.bias ? linear[1].value : at::Tensor(),
                        at::kFloat);
    switch (dense.activation) {
      case DenseActivation::identity:
        break;
      case DenseActivation::tanh:
        rows = at::tanh(rows);
        break;
      case DenseActivation::relu:
        rows = at::relu(rows);
        break;
      case DenseActivation::gelu:
        rows = at::gelu(rows);
        break;
    }
  }
  return embedding.normalise ? unit_rows(rows) : rows;
}

}  // namespace gpuhpc
