#include <gpuhpc/nn/folder.hpp>

#include <gpuhpc/base/error.hpp>
#include <gpuhpc/io/atomic_file.hpp>
#include <gpuhpc/io/json.hpp>
#include <gpuhpc/io/safetensors.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "named_weights.hpp"

namespace gpuhpc {
namespace {

namespace fs = std::filesystem;

// Heads of other tasks and buffers that hold no weights.
constexpr std::array<std::string_view, 9> left_aside = {
    "cls.", "classifier.", "qa_outputs.", "lm_head.", "lm_predictions.", "mask_predictions.", "pooler.", "embeddings.position_ids", "embeddings.token_type_ids"};

// sentence-transformers' files for a folder that has none, or whose settings were changed. Old type names: every version reads them.
void write_modules(const fs::path& folder, const EmbeddingConfig& embedding, std::int64_t width) {
  nlohmann::ordered_json modules = nlohmann::ordered_json::array();
  const auto add = [&](const char* path, const char* type) {
    const auto index = modules.size();
    modules.push_back(
        {{"idx", index}, {"name", std::to_string(index)}, {"path", path}, {"type", std::string("sentence_transformers.models.") + type}});
  };
  add("", "Transformer");
  add("1_Pooling", "Pooling");
  if (embedding.normalise) add("2_Normalize", "Normalize");
  write_json(folder / "modules.json", modules);
  // BERT's pooler head is no sentence-transformers pooling; the first token is what it reads.
  const bool cls = reads_first_token(embedding.pooling);
  create_folder(folder / "1_Pooling");
  write_json(folder / "1_Pooling" / "config.json", nlohmann::ordered_json{{"word_embedding_dimension", width},
                                                                          {"pooling_mode_cls_token", cls},
                                                                          {"pooling_mode_mean_tokens", embedding.pooling == Pooling::mean},
                                                                          {"pooling_mode_max_tokens", embedding.pooling == Pooling::max},
                                                                          {"pooling_mode_mean_sqrt_len_tokens", false}});
  write_json(folder / "sentence_bert_config.json",
             nlohmann::ordered_json{{"max_seq_length", embedding.max_tokens}, {"do_lower_case", false}});
}

// Copies the file when the source has it.
void copy_if_there(const fs::path& from, const fs::path& to) {
  if (fs::exists(from)) gpuhpc::copy_file(from, to);
}

// config.json byte for byte, unless it promises a head that is not written.
void write_config(const fs::path& folder, const ModelFolder& source) {
  const fs::path from = source.weights_folder / "config.json";
  const std::string& type = source.encoder.model_type;
  const std::string bare = type == "bert"         ? "BertModel"
                           : type == "roberta"    ? "RobertaModel"
                           : type == "deberta"    ? "DebertaModel"
                           : type == "deberta-v2" ? "DebertaV2Model"
                                                  : "XLMRobertaModel";
  auto config = nlohmann::ordered_json::parse(read_text_file(from));
  const nlohmann::ordered_json architectures = {bare};
  if (config.contains("architectures") && config["architectures"] != architectures) {
    config["architectures"] = architectures;
    write_json(folder / "config.json", config);
  } else {
    gpuhpc::copy_file(from, folder / "config.json");
  }
}

bool same_settings(const EmbeddingConfig& a, const EmbeddingConfig& b) {
  return a.pooling == b.pooling && a.normalise == b.normalise && a.max_tokens == b.max_tokens;
}

}  // namespace

LoadedEncoder load_encoder(const fs::path& folder, at::Device device) {
  ModelFolder model = read_model_folder(folder);
  const NamedWeights weights(model.weights_folder, model.encoder);
  // The pooler of a DeBERTa folder belongs to its classifier, not to the encoder.
  const bool pooler = !model.encoder.relative && weights.has("pooler.dense.weight") && weights.has("pooler.dense.bias");
  Encoder encoder(model.encoder, device, pooler);
  weights.fill(encoder.parameters());
  weights.refuse_strangers(encoder.parameters(), left_aside);
  return {std::move(model), std::move(encoder)};
}

void save_encoder_folder(const fs::path& folder, const Encoder& encoder, const EmbeddingConfig& embedding, const ModelFolder& source) {
  create_folder(folder);
  std::vector<at::Tensor> on_host;  // keeps the bytes alive until they are written
  std::vector<TensorView> tensors;
  for (const NamedParameter& parameter : encoder.parameters()) {
    on_host.push_back(in_file_order(encoder.config(), parameter.name, parameter.value.detach().cpu()).contiguous());
    const at::Tensor& values = on_host.back();
    const auto bytes = std::as_bytes(std::span(values.const_data_ptr<float>(), static_cast<std::size_t>(values.numel())));
    tensors.push_back({parameter.name, TensorType::float32, values.sizes().vec(), bytes});
  }
  write_model_weights(folder, std::move(tensors));
  write_config(folder, source);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt",
                           "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model", "spm.model"}) {
    copy_if_there(source.weights_folder / name, folder / name);
  }
  copy_if_there(source.folder / "config_sentence_transformers.json", folder / "config_sentence_transformers.json");
  const bool unchanged = source.sentence_transformers && source.weights_folder == source.folder &&
                         same_settings(embedding, source.embedding) && fs::exists(source.folder / "1_Pooling" / "config.json") &&
                         fs::exists(source.folder / "sentence_bert_config.json");
  if (!unchanged) {
    write_modules(folder, embedding, encoder.config().hidden_size);
    return;
  }
  create_folder(folder / "1_Pooling");
  for (const char* name : {"modules.json", "1_Pooling/config.json", "sentence_bert_config.json"})
    gpuhpc::copy_file(source.folder / name, folder / name);
}

}  // namespace gpuhpc
