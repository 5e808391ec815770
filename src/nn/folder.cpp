#include <gpuhpc/nn/folder.hpp>

#include <gpuhpc/base/error.hpp>
#include <gpuhpc/io/atomic_file.hpp>
#include <gpuhpc/io/safetensors.hpp>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "modules.hpp"
#include "named_weights.hpp"

namespace gpuhpc {
namespace {

namespace fs = std::filesystem;

// Heads of other tasks and buffers that hold no weights.
std::vector<std::string_view> left_aside(const EncoderConfig& encoder) {
  if (encoder.modern) return {"head.", "decoder.", "classifier."};
  return {"cls.",
          "classifier.",
          "qa_outputs.",
          "lm_head.",
          "lm_predictions.",
          "mask_predictions.",
          "pooler.",
          "embeddings.position_ids",
          "embeddings.token_type_ids"};
}

// Copies the file when the source has it.
void copy_if_there(const fs::path& from, const fs::path& to) {
  if (fs::exists(from)) gpuhpc::copy_file(from, to);
}

// How transformers calls the class of a model type, without its task, and what stands before the
// names of the encoder's weights beside a head.
struct Family {
  std::string name, prefix;
};
Family family(const EncoderConfig& encoder) {
  static const std::map<std::string, Family, std::less<>> families{
      {"bert", {"Bert", "bert."}},
      {"roberta", {"Roberta", "roberta."}},
      {"xlm-roberta", {"XLMRoberta", "roberta."}},
      {"mpnet", {"MPNet", "mpnet."}},
      {"modernbert", {"ModernBert", "model."}},
      {"deberta", {"Deberta", "deberta."}},
      {"deberta-v2", {"DebertaV2", "deberta."}}};
  return families.at(encoder.model_type);
}

nlohmann::ordered_json read_config(const ModelFolder& source) {
  return nlohmann::ordered_json::parse(read_text_file(source.weights_folder / "config.json"));
}

// Weights are written in fp32; transformers would round them to what config.json says.
void say_fp32(nlohmann::ordered_json& config) {
  for (const char* key : {"torch_dtype", "dtype"})
    if (config.contains(key)) config[key] = "float32";
}

// config.json byte for byte, unless it promises a head that is not written or another type.
void write_config(const fs::path& folder, const ModelFolder& source) {
  const auto config = read_config(source);
  auto changed = config;
  if (config.contains("architectures"))
    changed["architectures"] = {family(source.encoder).name + "Model"};
  say_fp32(changed);
  if (changed != config) {
    write_json(folder / "config.json", changed);
  } else {
    gpuhpc::copy_file(source.weights_folder / "config.json", folder / "config.json");
  }
}

void write_weights(const fs::path& folder, const std::vector<NamedParameter>& weights) {
  std::vector<at::Tensor> on_host;  // keeps the bytes alive until they are written
  std::vector<TensorView> tensors;
  for (const auto& [name, value] : weights) {
    const at::Tensor& values = on_host.emplace_back(value.detach().cpu().contiguous());
    const auto bytes = std::as_bytes(
        std::span(values.const_data_ptr<float>(), static_cast<std::size_t>(values.numel())));
    tensors.push_back({name, TensorType::float32, values.sizes().vec(), bytes});
  }
  write_model_weights(folder, std::move(tensors));
}

// The encoder's parameters as a file has them; Dense modules have files of their own.
std::vector<NamedParameter> encoder_weights(const Encoder& encoder, const std::string& prefix) {
  std::vector<NamedParameter> weights;
  for (const auto& [name, value] : encoder.parameters())
    if (!name.starts_with("dense."))
      weights.push_back({prefix + name, in_file_order(encoder.config(), name, value)});
  return weights;
}

// The Dense modules that modules.json names, and their weights.
void load_dense(const ModelFolder& model, Encoder& encoder) {
  Encoder shapes(model.encoder, at::kMeta);
  shapes.add_dense(model.embedding.dense);
  const auto each = [&](const auto& use) {
    for (std::size_t i = 0; i < model.embedding.dense.size(); ++i)
      use(i, NamedWeights(model.folder / model.embedding.dense[i].folder, {}));
  };
  each([&](std::size_t i, const NamedWeights& weights) { weights.check(shapes.dense(i)); });
  encoder.add_dense(model.embedding.dense);
  each([&](std::size_t i, const NamedWeights& weights) { weights.fill(encoder.dense(i)); });
}

void copy_tokenizer(const fs::path& folder, const fs::path& source) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                           "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt",
                           "sentencepiece.bpe.model", "spiece.model", "spm.model"}) {
    copy_if_there(source / name, folder / name);
  }
}

bool same_settings(const EmbeddingConfig& a, const EmbeddingConfig& b) {
  return a.pooling == b.pooling && a.normalise == b.normalise && a.max_tokens == b.max_tokens &&
         a.dense.size() == b.dense.size();
}

}  // namespace

LoadedEncoder load_encoder(const fs::path& folder, at::Device device, Pooling plain) {
  ModelFolder model = read_model_folder(folder);
  if (!model.pools)
    throw input_error(
        "{}: modules.json names no Pooling, so this is no encoder of sentence-transformers but, "
        "say, a cross-encoder; to encode with it all the same remove modules.json and choose "
        "--model.pooling",
        folder.string());
  if (!model.sentence_transformers) model.embedding.pooling = plain;
  const NamedWeights weights(model.weights_folder, model.encoder);
  // The pooler of a DeBERTa folder belongs to its classifier, not to the encoder.
  const bool pooler = !model.encoder.relative && !model.encoder.modern &&
                      weights.has("pooler.dense.weight") && weights.has("pooler.dense.bias");
  const Encoder shapes(model.encoder, at::kMeta, pooler);
  weights.check(shapes.parameters());
  weights.refuse_strangers(shapes.parameters(), left_aside(model.encoder));
  Encoder encoder(model.encoder, device, pooler);
  weights.fill(encoder.parameters());
  load_dense(model, encoder);
  return {std::move(model), std::move(encoder)};
}

void save_encoder_folder(const fs::path& folder, const Encoder& encoder,
                         const EmbeddingConfig& embedding, const ModelFolder& source) {
  create_folder(folder);
  write_weights(folder, encoder_weights(encoder, ""));
  write_config(folder, source);
  copy_tokenizer(folder, source.weights_folder);
  save_modules(folder, encoder, embedding, source);
}

void save_modules(const fs::path& folder, const Encoder& encoder, const EmbeddingConfig& embedding,
                  const ModelFolder& source) {
  write_prompts(folder, source.prompts, source.folder);
  for (std::size_t i = 0; i < embedding.dense.size(); ++i) {
    create_folder(folder / embedding.dense[i].folder);
    write_weights(folder / embedding.dense[i].folder, encoder.dense(i));
  }
  const bool unchanged = source.sentence_transformers && source.weights_folder == source.folder &&
                         same_settings(embedding, source.embedding) &&
                         fs::exists(source.folder / "1_Pooling" / "config.json") &&
                         fs::exists(source.folder / "sentence_bert_config.json");
  if (!unchanged) {
    write_modules(folder, embedding, encoder.config().hidden_size);
    return;
  }
  create_folder(folder / "1_Pooling");
  std::vector<fs::path> names{"modules.json", "1_Pooling/config.json", "sentence_bert_config.json"};
  for (const DenseConfig& dense : embedding.dense)
    names.push_back(fs::path(dense.folder) / "config.json");
  for (const fs::path& name : names) gpuhpc::copy_file(source.folder / name, folder / name);
}

void save_model_folder(const fs::path& folder, const std::vector<NamedParameter>& weights,
                       const nlohmann::ordered_json& config, const fs::path& tokenizer_folder) {
  create_folder(folder);
  write_weights(folder, weights);
  auto own = config;
  say_fp32(own);
  write_json(folder / "config.json", own);
  copy_tokenizer(folder, tokenizer_folder);
}

void load_weights(const fs::path& folder, const std::vector<NamedParameter>& weights) {
  NamedWeights(folder, {}).fill(weights);
}

void save_headed_folder(const fs::path& folder, const Encoder& encoder,
                        std::span<const NamedParameter> head, const std::string& task,
                        const nlohmann::ordered_json& changes, const ModelFolder& source) {
  const auto [kind, prefix] = family(encoder.config());
  std::vector<NamedParameter> weights = encoder_weights(encoder, prefix);
  std::erase_if(weights, [](const NamedParameter& weight) {
    return weight.name.find("pooler.") != std::string::npos;  // a head brings its own
  });
  for (const auto& [name, value] : head) {
    const bool of_encoder = kind == "Bert" && name.starts_with("pooler.");
    weights.push_back({(of_encoder ? prefix : "") + name, value});
  }
  auto config = read_config(source);
  config["architectures"] = {kind + task};
  for (const auto& [key, value] : changes.items()) config[key] = value;
  save_model_folder(folder, weights, config, source.weights_folder);
}

void save_classifier_folder(const fs::path& folder, const Encoder& encoder,
                            std::span<const NamedParameter> head,
                            const std::vector<std::string>& labels, const ModelFolder& source) {
  nlohmann::ordered_json places = nlohmann::ordered_json::object(), names = places;
  for (std::size_t i = 0; i < labels.size(); ++i)
    names[std::to_string(i)] = labels[i], places[labels[i]] = i;
  save_headed_folder(folder, encoder, head, "ForSequenceClassification",
                     {{"label2id", places}, {"id2label", names}}, source);
}

}  // namespace gpuhpc
