#include "gpuhpc/nn/t5.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "named_weights.hpp"
#include "plain_layer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// Other spellings of the word table, and a table that no model reads.
constexpr std::array<std::string_view, 4> t5_left_aside = {
    "encoder.embed_tokens.", "decoder.embed_tokens.", "lm_head.",
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias."};

constexpr std::size_t attention_parts = 5;  // q, k, v, o, norm

// The targets one place later, each sequence behind the id that decoding begins with.
PackedTokens shifted(PackedTokens targets, std::int32_t start) {
  at::Tensor ids = targets.token_ids.roll(1);
  targets.token_ids =
      ids.index_fill(0, targets.cumulative.narrow(0, 0, targets.documents()).to(at::kLong), start);
  return targets;
}

// What a layer reads beside its parameters and its input; kept by a checkpointed layer.
struct LayerContext {
  T5Config config;
  PackedTokens tokens;
  PackedOffsets source;  // of the decoder
  ForwardOptions options;
  bool decoder;
};

// Behind the layer's parameters stand the bias (A, 2 reach - 1) and, in the decoder, the encoder's
// vectors (S,H).
at::Tensor t5_layer(const LayerContext& c, const std::vector<at::Tensor>& p, at::Tensor hidden) {
  const ForwardOptions& o = c.options;
  const T5Config& config = c.config;
  const std::int64_t heads = config.heads, size = config.head_size;
  const auto dropped = [&](const at::Tensor& x) {
    return seeded_dropout(x, o.hidden_dropout, o.generator);
  };
  const auto split = [&](const at::Tensor& x, std::int64_t parts) {
    return x.view({x.size(0), parts, heads, size}).unbind(1);
  };
  const auto add_context = [&](const at::Tensor& context, const at::Tensor& weight) {
    hidden = t5_sum(hidden, dropped(mixed_linear(context, weight, {}, o.compute)), o.compute);
  };
  AttentionOptions how{.dropout = o.attention_dropout, .generator = o.generator};
  const at::Tensor* part = p.data();
  const at::Tensor* const shared =
      part + attention_parts * (c.decoder ? 2 : 1) + (config.gated ? 4 : 3);

  how.causal = c.decoder, how.bias = shared[0];
  const at::Tensor qkv = joined_linear(rms_norm(hidden, part[4], config.epsilon),
                                       {part[0], part[1], part[2]}, {}, o.compute);
  add_context(self_attention(qkv, heads, c.tokens, how), part[3]);
  part += attention_parts;
  if (c.decoder) {
    how.causal = false, how.bias = at::Tensor();
    const auto q =
        split(mixed_linear(rms_norm(hidden, part[4], config.epsilon), part[0], {}, o.compute), 1);
    const auto kv = split(joined_linear(shared[1], {part[1], part[2]}, {}, o.compute), 2);
    add_context(attention(q[0], kv[0], kv[1], c.tokens, c.source, how), part[3]);
    part += attention_parts;
  }
  const at::Tensor& norm = shared[-1];
  return t5_sum(hidden,
                dropped(t5_feed_forward(config, part, rms_norm(hidden, norm, config.epsilon), o)),
                o.compute);
}

}  // namespace

// What transformers' T5Block does behind each part: it clamps to 1,000 less than the largest number
// of fp16 where a sum is infinite. The sum is fp32 here, so that only a part's own product can be.
at::Tensor t5_sum(const at::Tensor& hidden, const at::Tensor& change, at::ScalarType compute) {
  constexpr double most = 65504 - 1000;
  const at::Tensor sum = hidden + change;
  if (compute != at::kHalf) return sum;
  return at::nan_to_num(sum, std::numeric_limits<double>::quiet_NaN(), most, -most);
}

// In fp16 the second product is computed in fp32, as transformers does: its inputs reach beyond
// 65,504 in the published models.
at::Tensor t5_feed_forward(const T5Config& config, const at::Tensor* p, const at::Tensor& normed,
                           const ForwardOptions& o) {
  const at::ScalarType second = o.compute == at::kHalf ? at::kFloat : o.compute;
  at::Tensor wide;
  if (config.gated) {
    const auto halves = joined_linear(normed, {p[0], p[1]}, {}, o.compute).to(second).chunk(2, 1);
    wide = activate(halves[0], config.activation) * halves[1];
  } else {
    wide = activate(mixed_linear(normed, p[0], {}, o.compute).to(second), config.activation);
  }
  wide = seeded_dropout(wide, o.hidden_dropout, o.generator);
  return mixed_linear(wide, p[config.gated ? 2 : 1], {}, second);
}

T5::T5(T5Config config, at::Device device) : config_(std::move(config)), device_(device) {
  for (const NamedShape& weight : t5_shapes(config_))
    parameters_.push_back(
        {weight.name,
         at::zeros(weight.shape, at::TensorOptions().dtype(at::kFloat).device(device_))});
}

void T5::learn_everything() {
  for (NamedParameter& parameter : parameters_) parameter.value.set_requires_grad(true);
}

void T5::initialise(std::uint64_t seed) {
  const T5Sizes sizes{config_.hidden_size, config_.heads, config_.head_size,
                      config_.intermediate_size, config_.initializer_factor};
  gpuhpc::initialise(
      parameters_, [&](const std::string& name) { return sizes.deviation(name); }, seed);
}

std::vector<at::Tensor> T5::layer(bool decoder, std::int64_t index) const {
  const std::size_t feed_forward = config_.gated ? 4 : 3, first = config_.tied_head ? 5 : 6,
                    encoder_size = attention_parts + feed_forward,
                    size = encoder_size + (decoder ? attention_parts : 0);
  std::size_t place = first + static_cast<std::size_t>(index) * size;
  if (decoder) place += static_cast<std::size_t>(config_.layers) * encoder_size;
  std::vector<at::Tensor> result;
  for (std::size_t i = 0; i < size; ++i) result.push_back(value(place + i));
  return result;
}

at::Tensor T5::stack(bool decoder, const PackedTokens& tokens, const at::Tensor& encoded,
                     const PackedOffsets& source, const ForwardOptions& options) const {
  choose_products(device_, options);
  check_token_ids(tokens.token_ids, config_.vocabulary_size);
  const at::Tensor bias =
      distance_bias(bias_table(decoder), config_.buckets(decoder), tokens.max_len);
  at::Tensor hidden = seeded_dropout(table_rows(words(), tokens.token_ids), options.hidden_dropout,
                                     options.generator);
  const LayerBody body = [context = LayerContext{config_, tokens, source, options, decoder}](
                             const auto& parameters, const at::Tensor& input) {
    return t5_layer(context, parameters, input);
  };
  for (std::int64_t i = 0; i < (decoder ? config_.decoder_layers : config_.layers); ++i) {
    std::vector<at::Tensor> parameters = layer(decoder, i);
    parameters.push_back(bias);
    if (decoder) parameters.push_back(encoded);
    hidden = options.checkpoint_layers ? checkpointed(body, parameters, hidden, options)
                                       : body(parameters, hidden);
  }
  return seeded_dropout(rms_norm(hidden, final_norm(decoder), config_.epsilon),
                        options.hidden_dropout, options.generator);
}

at::Tensor T5::encode(const PackedTokens& source, const ForwardOptions& options) const {
  return stack(false, source, {}, {}, options);
}

at::Tensor T5::logits(const PackedTokens& inputs, const at::Tensor& encoded,
                      const PackedOffsets& source, const ForwardOptions& options) const {
  at::Tensor hidden = stack(true, inputs, encoded, source, options);
  if (config_.scaled_head) hidden = hidden / std::sqrt(static_cast<double>(config_.hidden_size));
  return mixed_linear(hidden, head(), {}, options.compute);
}

at::Tensor T5::loss(const PackedTokens& source, const PackedTokens& targets, double label_smoothing,
                    const ForwardOptions& options) const {
  const at::Tensor all =
      logits(shifted(targets, config_.start), encode(source, options), source, options);
  return at::cross_entropy_loss(all.to(at::kFloat), targets.token_ids, {}, at::Reduction::Sum,
                                /*ignore_index=*/-100, label_smoothing);
}

LoadedT5 load_t5(const fs::path& folder, at::Device device) {
  if (!fs::is_directory(folder))
    throw io_error("{}: no such model folder; give a folder with config.json and model.safetensors",
                   folder.string());
  T5Config config = read_t5_config(folder / "config.json");
  EncoderConfig in_messages;
  in_messages.model_type = config.model_type, in_messages.layers = config.layers;
  const NamedWeights weights(folder, in_messages);
  // Files say more truly than config.json whether the head has weights of its own: transformers 5
  // ties it wherever it may.
  config.tied_head =
      !weights.has("lm_head.weight") || weights.same_bytes("lm_head.weight", "shared.weight");
  const T5 shapes(config, at::kMeta);
  weights.check(shapes.parameters());
  weights.refuse_strangers(shapes.parameters(), t5_left_aside);
  T5 model(std::move(config), device);
  weights.fill(model.parameters());
  return {folder, std::move(model)};
}

void save_t5(const fs::path& folder, const T5& model, const nlohmann::ordered_json& config,
             const fs::path& tokenizer_folder) {
  save_model_folder(folder, model.parameters(), config, tokenizer_folder);
}

void save_t5(const fs::path& folder, const T5& model, const fs::path& source) {
  save_t5(folder, model, nlohmann::ordered_json::parse(read_text_file(source / "config.json")),
          source);
  if (const fs::path settings = source / "generation_config.json"; fs::exists(settings))
    gpuhpc::copy_file(settings, folder / settings.filename());
}

void check_t5_vocabulary(const LoadedT5& model, std::int64_t tokenizer_vocabulary_size) {
  if (tokenizer_vocabulary_size > model.model.config().vocabulary_size)
    throw input_error(
        "{}: a vocabulary that does not fit the weights: the tokenizer has {} entries, the word "
        "table {} rows; take tokenizer and weights from one model",
        model.folder.string(), tokenizer_vocabulary_size, model.model.config().vocabulary_size);
}

}  // namespace gpuhpc
