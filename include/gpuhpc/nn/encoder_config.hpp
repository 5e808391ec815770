#pragma once
// What a Hugging Face or sentence-transformers folder says about its encoder: shapes, pooling,
// length limit. No tensors here.
#include <gpuhpc/nn/prompts.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuhpc {

enum class Activation { gelu, gelu_tanh, relu };

// How token vectors become one document vector. `pooler` = tanh(dense(first token)), the head BERT
// was pretrained with; `last`: the last token, [SEP] or its like.
enum class Pooling { mean, cls, max, pooler, last };
// Nothing but the first token's vector counts (pooler: BERT's tanh head on it).
constexpr bool reads_first_token(Pooling pooling) {
  return pooling == Pooling::cls || pooling == Pooling::pooler;
}

// DeBERTa: attention also weighs how far apart two tokens lie, from a table of 2 x span vectors (He
// et al. 2021, section 3.1; log buckets: He et al. 2023).
struct RelativeAttention {
  std::int64_t farthest = 0;  // distances beyond count as this
  // above 0: distances beyond half of it share vectors, in logarithmic steps
  std::int64_t buckets = 0;
  bool fused_projections = false;  // version 1: one in_proj of interleaved heads, no key bias
  // positions go through the content's own query and key projections
  bool shared_projections = false;
  bool normalised = false;  // layer norm over the table

  std::int64_t span() const { return buckets > 0 ? buckets : farthest; }
  std::int64_t rows() const { return 2 * span(); }
  std::int64_t row(std::int64_t distance)
      const;  // of the table; distance = place of the query - place of the key
};

// Distances between two tokens in buckets, near ones each their own, far ones in logarithmic steps;
// attention adds a learned number for each bucket and head to the scores (Raffel et al. 2020,
// section 2.1): T5 and MPNet.
struct DistanceBuckets {
  std::int64_t count = 32, farthest = 128;
  bool causal = false;                               // keys behind the query share bucket 0
  std::int64_t bucket(std::int64_t distance) const;  // place of the key - place of the query
};

// ModernBERT (Warner et al. 2024): no biases, norms in front of attention and of a gated
// feed-forward part, one more behind the last layer; positions turn queries and keys (Su et al.
// 2021); some layers see near keys alone.
struct ModernLayers {
  double global_theta = 160'000, local_theta = 10'000;  // of the rotary positions
  std::int64_t window = 64;      // the farthest key that a query of a local layer sees
  std::vector<bool> local = {};  // of each layer
  double theta(std::int64_t layer) const {
    return local[static_cast<std::size_t>(layer)] ? local_theta : global_theta;
  }
};

// config.json. Shapes of the weights follow from it alone.
struct EncoderConfig {
  std::string model_type = "bert";
  std::int64_t vocabulary_size = 0;  // rows of the word table
  std::int64_t hidden_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t position_rows = 0;  // rows of the position table
  // false: DeBERTa without one, ModernBERT; position_rows still limits the length
  bool position_table = true;
  // position of a document's first token (RoBERTa family: padding id + 1)
  std::int64_t position_offset = 0;
  std::int64_t token_types = 0;  // rows of the segment table; 0: no such table
  double layer_norm_epsilon = 1e-12;
  // rates the model was pretrained with; used only when training asks for them
  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;
  Activation activation = Activation::gelu;
  std::optional<RelativeAttention> relative;
  std::optional<DistanceBuckets> distances;
  std::optional<ModernLayers> modern;
  double initializer_range = .02;  // deviation of new weights
  std::int64_t padding_id = 0;     // its rows of the tables are zeros in new weights

  std::int64_t head_size() const { return hidden_size / heads; }
  // Longest document in tokens, [CLS] and [SEP] included.
  std::int64_t max_tokens() const { return position_rows - position_offset; }
};

enum class DenseActivation { identity, tanh, relu, gelu };
// sentence-transformers' Dense: activation(x W^T [+ b]) of the pooled vector.
struct DenseConfig {
  std::string folder;        // inside the model folder: "2_Dense"
  bool unit_inputs = false;  // a Normalize stands before it
  std::int64_t inputs = 0, outputs = 0;
  bool bias = true;
  DenseActivation activation = DenseActivation::tanh;
};

// What sentence-transformers adds (modules.json and the folders it names,
// sentence_bert_config.json).
struct EmbeddingConfig {
  Pooling pooling = Pooling::mean;
  bool normalise = false;               // unit length at the end
  std::int64_t max_tokens = 0;          // documents are cut here, [CLS] and [SEP] included
  std::vector<DenseConfig> dense = {};  // behind the pooling, in order
  bool pools_prompt = true;             // false: a prompt's tokens are left out of the pooling

  // Values of a vector, from token vectors of `hidden` columns.
  std::int64_t width(std::int64_t hidden) const {
    return dense.empty() ? hidden : dense.back().outputs;
  }
};

struct ModelFolder {
  std::filesystem::path folder;  // as given
  // where config.json and the weights lie: `folder`, or a subfolder named by modules.json
  std::filesystem::path weights_folder;
  EncoderConfig encoder;
  EmbeddingConfig embedding;
  bool sentence_transformers = false;  // modules.json is there
  bool pools = true;                   // false: modules.json names no Pooling: no vectors of texts
  Prompts prompts = {};

  // input_error where a prompt is to be put before texts and this model cannot have one.
  void check_prompt(const std::string& prompt) const;
};

// The word table's name among the encoder's parameters.
std::string word_table(const EncoderConfig& config);

// `config_file` is a config.json. Throws input_error naming the file and key (missing, wrong type,
// impossible, unsupported).
EncoderConfig read_encoder_config(const std::filesystem::path& config_file);
// A plain Hugging Face folder (no modules.json) gets mean pooling and no normalising, as
// sentence-transformers does.
ModelFolder read_model_folder(const std::filesystem::path& folder);

// "A vocabulary that does not fit the weights": every id the tokenizer can give must have a row in
// the word table.
void check_vocabulary(const ModelFolder& model, std::int64_t tokenizer_vocabulary_size);

std::string_view to_string(Pooling pooling);
Pooling parse_pooling(std::string_view name);  // throws usage_error naming the allowed words

}  // namespace gpuhpc
