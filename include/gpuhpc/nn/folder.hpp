#pragma once
// Model folders in Hugging Face / sentence-transformers layout, in and out.
#include <gpuhpc/io/json.hpp>
#include <gpuhpc/nn/encoder.hpp>
#include <gpuhpc/nn/encoder_config.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace gpuhpc {

struct LoadedEncoder {
  ModelFolder model;
  Encoder encoder;
};

// Reads config.json, model.safetensors (or its sharded index) and the sentence-transformers files.
// fp32, fp16 and bf16 weights become fp32. Prefixes "bert." / "roberta." and the old names
// gamma/beta are understood; heads of other tasks ("cls.", "classifier." ..) are left aside; any
// other missing, unknown or misshaped tensor is an input_error. Pickled weights alone are refused
// with the cure. `plain`: the pooling of a folder that names none (no modules.json).
LoadedEncoder load_encoder(const std::filesystem::path& folder, at::Device device = at::kCPU,
                           Pooling plain = Pooling::mean);

// Writes a folder that transformers and sentence-transformers load unchanged: model.safetensors of
// `encoder`, config.json and the tokenizer's files of `source` byte for byte, and modules.json with
// pooling, Dense modules, normalising and length limit of `embedding`, and the prompts of `source`.
void save_encoder_folder(const std::filesystem::path& folder, const Encoder& encoder,
                         const EmbeddingConfig& embedding, const ModelFolder& source);
// Its second half: what makes any folder of the encoder one of sentence-transformers.
void save_modules(const std::filesystem::path& folder, const Encoder& encoder,
                  const EmbeddingConfig& embedding, const ModelFolder& source);

// Any head on an encoder, as transformers' class of the family for `task` ("ForMaskedLM") loads it:
// `head` under the names given, config.json of `source` with `changes`, its tokenizer's files.
void save_headed_folder(const std::filesystem::path& folder, const Encoder& encoder,
                        std::span<const NamedParameter> head, const std::string& task,
                        const nlohmann::ordered_json& changes, const ModelFolder& source);
// A sequence classifier: one label a logit.
void save_classifier_folder(const std::filesystem::path& folder, const Encoder& encoder,
                            std::span<const NamedParameter> head,
                            const std::vector<std::string>& labels, const ModelFolder& source);

// Any model: weights under their names, its config.json, and the tokenizer's files of a folder.
void save_model_folder(const std::filesystem::path& folder,
                       const std::vector<NamedParameter>& weights,
                       const nlohmann::ordered_json& config,
                       const std::filesystem::path& tokenizer_folder);
// Fills `weights` from the folder's, whatever else lies there. One that is missing or has another
// shape is an input_error.
void load_weights(const std::filesystem::path& folder, const std::vector<NamedParameter>& weights);

}  // namespace gpuhpc
