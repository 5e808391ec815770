#pragma once
// BERT-family encoder on packed tokens, differentiable, for training and as the reference of the
// fast inference path. Legend: T tokens of a batch, B documents, H hidden size, A heads, F
// intermediate size.
#include <gpuhpc/nn/ops.hpp>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuhpc {

struct ForwardOptions {
  // Type of the matrix products: kFloat, kBFloat16 or kHalf. Parameters, residual stream, layer
  // norm and softmax stay fp32. kHalf needs a loss scale in training; on processors its products
  // are rounded as on a GPU but no faster than fp32.
  at::ScalarType compute = at::kFloat;
  // with kFloat: a GPU may round the inputs of products to 10 bits (process-wide); processors take
  // no notice
  bool tf32 = false;
  // Nothing of a layer but its input is kept for the backward pass, which computes the layer again:
  // same bits, dropout included, about a sixth of the memory for a third more time.
  bool checkpoint_layers = false;
  double hidden_dropout = 0;     // after embeddings, attention output and feed-forward output
  double attention_dropout = 0;  // on attention probabilities
  std::optional<at::Generator> generator;  // of the device; needed when a dropout is above 0
  // Layers of LibTorch's operators also where this processor has kernels for them: their twin.
  bool plain_layers = false;
};

// Before a forward pass: whether a GPU may round the inputs of fp32 products (process-wide, so the
// pass before, of another kind perhaps, does not decide it).
void choose_products(at::Device device, const ForwardOptions& options);

class CpuLayerContext;

class Encoder {
 public:
  // Zero weights of the configured shapes (no pooler head unless asked); load_encoder fills them.
  Encoder(EncoderConfig config, at::Device device, bool pooler = false);

  const EncoderConfig& config() const { return config_; }
  at::Device device() const { return device_; }

  // In a fixed order: word, position, segment embeddings and their layer norm, what the layers
  // share of relative positions, then as many for each layer (BERT, RoBERTa, MPNet: 16; ModernBERT:
  // 6, in the first 5), then ModernBERT's last norm or the pooler, then "dense.0.linear.weight" ..
  // of Dense modules. DeBERTa 1's in_proj holds queries, keys and values one behind the other.
  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  const at::Tensor& parameter(
      std::string_view name) const;  // throws internal_error when there is none
  bool has_parameter(std::string_view name) const;
  bool has_pooler() const { return pooler_ >= 0; }
  // A layer's sixteen tensors in BERT's order, whatever the file calls them, then those of
  // DeBERTa's positions unless shared: weight and bias of their keys, of their queries. ModernBERT:
  // its five or six (src/nn/modern_layer.hpp).
  std::vector<at::Tensor> layer(std::int64_t index) const;
  at::Tensor position_vectors()
      const;  // DeBERTa's relative positions (rows, H), normalised where the model does that

  // Zero weights for sentence-transformers' Dense modules, which learn with the top layers. Called
  // before weights are rebound.
  void add_dense(const std::vector<DenseConfig>& modules);
  std::size_t dense_count() const { return dense_.empty() ? 0 : dense_.size() - 1; }
  // Of module i, under the names of its file: linear.weight and, with a bias, linear.bias.
  std::vector<NamedParameter> dense(std::size_t i) const;

  // New weights as transformers draws them for a model to be trained from the start: matrices from
  // N(0, initializer_range^2), zeros for padding, layer norms 1, biases 0.
  void initialise(std::uint64_t seed);

  // Puts other storage (a view into an arena: same shape, fp32, a leaf) in place of parameter i;
  // values are the caller's business.
  void rebind(std::size_t i, at::Tensor storage);

  // Only the top `count` layers (and the pooler) learn; the rest runs without gradients. Negative:
  // everything, embeddings too.
  void train_top_layers(std::int64_t count);
  std::int64_t first_trained_layer() const {
    return first_trained_;
  }  // = layers when nothing learns, -1: embeddings too

  // Token vectors (T,H) fp32 after the last layer.
  at::Tensor forward(const PackedTokens& batch, const ForwardOptions& options = {}) const;
  // The frozen part alone, without gradients: input (T,H) of layer first_trained_layer(). A faster
  // engine may stand in for it.
  at::Tensor forward_frozen(const PackedTokens& batch, const ForwardOptions& options = {}) const;
  // Vectors (B,H) of the documents' first tokens; the last layer computes nothing else behind its
  // attention.
  at::Tensor first_tokens(const PackedTokens& batch, const ForwardOptions& options = {}) const;

  // Document vectors (B,H) of token vectors (T,H); special tokens count as sentence-transformers
  // counts them.
  at::Tensor pool(const at::Tensor& hidden, const PackedTokens& batch, Pooling pooling) const;
  // forward + pool + Dense modules (+ unit length): what sentence-transformers calls an embedding,
  // (B, embedding.width(H)). Where only the
  // first tokens count (cls, pooler), the last layer computes nothing else behind its attention.
  at::Tensor embed(const PackedTokens& batch, const EmbeddingConfig& embedding,
                   const ForwardOptions& options = {}) const;

 private:
  at::Tensor embeddings(const PackedTokens& batch, const ForwardOptions& options) const;
  at::Tensor forward(const PackedTokens& batch, const ForwardOptions& options,
                     bool first_tokens) const;
  at::Tensor layers(std::int64_t first, std::int64_t last, at::Tensor hidden,
                    const PackedTokens& batch, const ForwardOptions& options,
                    bool first_tokens) const;
  at::Tensor head(const at::Tensor& first_tokens, Pooling pooling) const;
  at::Tensor projected(at::Tensor rows, const EmbeddingConfig& embedding) const;
  const at::Tensor& value(std::size_t i) const { return parameters_[i].value; }
  void check(const PackedTokens& batch) const;
  void add(std::string name, std::vector<std::int64_t> shape);
  void add_embeddings();
  void add_layer(std::int64_t layer);
  void add_modern_layer(std::int64_t layer);
  at::Tensor modern_layers(std::int64_t first, std::int64_t last, at::Tensor hidden,
                           const PackedTokens& batch, const ForwardOptions& options,
                           const at::Tensor& firsts) const;

  EncoderConfig config_;
  at::Device device_;
  std::vector<NamedParameter> parameters_;
  // index of the first parameter of each layer, and behind the last
  std::vector<std::size_t> layer_starts_;
  std::size_t relative_ = 0;        // index of encoder.rel_embeddings or relative_attention_bias
  at::Tensor no_key_bias_;          // (H) zeros, for DeBERTa 1
  std::int64_t pooler_ = -1;        // index of pooler.dense.weight
  std::vector<std::size_t> dense_;  // index of each Dense module's weight, and behind the last
  std::int64_t first_trained_ = 0;
  std::shared_ptr<CpuLayerContext> fp32_layers_, bf16_layers_;  // null: plain operators
};

}  // namespace gpuhpc
