#pragma once
// T5 (Raffel et al. 2020), T5 v1.1, Flan-T5 and mT5 on packed tokens: an encoder, a decoder that
// attends to it, and a head over the vocabulary. Folders of transformers'
// (M)T5ForConditionalGeneration, in and out. Legend: S tokens of the sources, T tokens of the
// targets, H hidden size, V vocabulary.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/io/json.hpp"
#include "gpuhpc/nn/encoder.hpp"

namespace gpuhpc {

// config.json. Shapes of the weights follow from it alone.
struct T5Config {
  std::string model_type = "t5";     // t5 | mt5
  std::int64_t vocabulary_size = 0;  // rows of the word table
  std::int64_t hidden_size = 0;
  std::int64_t head_size = 0;  // "d_kv": heads x head size need not be the hidden size
  std::int64_t heads = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t layers = 0, decoder_layers = 0;
  std::int64_t bucket_count = 32, farthest = 128;
  double epsilon = 1e-6;
  double dropout = .1;            // the one rate, everywhere
  double initializer_factor = 1;  // of the deviations of new weights
  Activation activation = Activation::relu;
  bool gated = false;       // f(x W0) * (x W1) in place of f(x W)
  bool scaled_head = true;  // version 1.0: the decoder's vectors x hidden size^-0.5 before the head
  bool tied_head = true;    // the head is the word table
  std::int32_t eos = 1, start = 0;  // ids: what ends a text; what decoding begins with
  // what the model wants before each source: task_specific_params' summarization.prefix
  std::optional<std::string> prefix;

  std::int64_t inner_size() const { return heads * head_size; }
  DistanceBuckets buckets(bool decoder) const {
    return {.count = bucket_count, .farthest = farthest, .causal = decoder};
  }
};
// Throws input_error naming the file and key. umt5 is refused: each of its layers has a bias table.
T5Config read_t5_config(const std::filesystem::path& config_file);
// A new T5 v1.0 of the published sizes ("small": 6 layers of 512, "base": 12 of 768), as
// config.json.
nlohmann::ordered_json new_t5_config(const std::string& size, std::int64_t vocabulary_size);

// A model's weights without memory: names and shapes, in the order of T5::parameters().
struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
};
std::vector<NamedShape> t5_shapes(const T5Config& config);
std::int64_t t5_parameter_count(const T5Config& config);

class T5 {
 public:
  // Zero weights of the configured shapes, of which none learns.
  explicit T5(T5Config config, at::Device device = at::kCPU);

  const T5Config& config() const { return config_; }
  at::Device device() const { return device_; }
  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  void rebind(std::size_t i, at::Tensor storage) { parameters_.at(i).value = std::move(storage); }
  void learn_everything();
  // As transformers draws new weights.
  void initialise(std::uint64_t seed);

  // Vectors (S,H) fp32 of the sources behind the encoder's last norm.
  at::Tensor encode(const PackedTokens& source, const ForwardOptions& options = {}) const;
  // (T,V) in `options.compute`: what stands behind each token of `inputs`, whose sequence b reads
  // sequence b of the sources.
  at::Tensor logits(const PackedTokens& inputs, const at::Tensor& encoded,
                    const PackedOffsets& source, const ForwardOptions& options = {}) const;
  // Sum over the targets' tokens of the cross entropy with teacher forcing: each is predicted from
  // the ones before it. Label smoothing: that share of the target's probability goes to all words
  // alike (Szegedy et al. 2016, section 7). fp32.
  at::Tensor loss(const PackedTokens& source, const PackedTokens& targets, double label_smoothing,
                  const ForwardOptions& options = {}) const;

  // What decodes token by token takes from here (t5_decoder.hpp).
  // q, k, v, o and norm of self attention; the decoder: of cross attention too; then the
  // feed-forward's wi (gated: wi_0, wi_1), wo and norm.
  std::vector<at::Tensor> layer(bool decoder, std::int64_t index) const;
  const at::Tensor& words() const { return value(0); }
  const at::Tensor& bias_table(bool decoder) const { return value(decoder ? 2 : 1); }
  const at::Tensor& final_norm(bool decoder) const { return value(decoder ? 4 : 3); }
  const at::Tensor& head() const { return config_.tied_head ? words() : value(5); }

 private:
  at::Tensor stack(bool decoder, const PackedTokens& tokens, const at::Tensor& encoded,
                   const PackedOffsets& source, const ForwardOptions& options) const;
  const at::Tensor& value(std::size_t i) const { return parameters_[i].value; }

  T5Config config_;
  at::Device device_;
  std::vector<NamedParameter> parameters_;
};

// The residual stream (T,H) fp32 behind a part of a layer. Products in fp16 that leave its range:
// +-64,504, without a gradient there.
at::Tensor t5_sum(const at::Tensor& hidden, const at::Tensor& change, at::ScalarType compute);
// The feed-forward part behind its norm: (T,H) in `compute`. `p`: wi (wi_0, wi_1), wo.
at::Tensor t5_feed_forward(const T5Config& config, const at::Tensor* p, const at::Tensor& normed,
                           const ForwardOptions& options);

// A folder of transformers. fp32, fp16 and bf16 weights become fp32; a weight that is missing,
// unknown or misshaped is an input_error. A head that has the word table's values is tied to it.
struct LoadedT5 {
  std::filesystem::path folder;
  T5 model;
};
LoadedT5 load_t5(const std::filesystem::path& folder, at::Device device = at::kCPU);
// Weights, the source's config.json and tokenizer files.
void save_t5(const std::filesystem::path& folder, const T5& model,
             const std::filesystem::path& source);
// Of new weights: `config` and the tokenizer's files of a folder.
void save_t5(const std::filesystem::path& folder, const T5& model,
             const nlohmann::ordered_json& config, const std::filesystem::path& tokenizer_folder);
// input_error when the tokenizer knows ids that have no row in the word table.
void check_t5_vocabulary(const LoadedT5& model, std::int64_t tokenizer_vocabulary_size);

}  // namespace gpuhpc
