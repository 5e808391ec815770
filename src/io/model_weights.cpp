// Hugging Face weight folders: one file, or shards with an index.
#include <algorithm>
#include <numeric>
#include <set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/safetensors.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

std::vector<fs::path> pickle_files(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const auto extension = entry.path().extension();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt")
      found.push_back(entry.path());
  }
  const auto of_model = [](const fs::path& path) {
    return path.filename().string().starts_with("pytorch_model");
  };
  std::ranges::sort(found);
  std::stable_partition(found.begin(), found.end(), of_model);
  return found;
}

// The class of transformers that keeps the head which config.json names; none: no model of theirs.
std::string auto_class(const fs::path& folder) {
  if (!fs::exists(folder / "config.json")) return "";
  const Json config = read_json(folder / "config.json");
  if (!config.is_object() || !config.contains("model_type")) return "";
  const Json architectures = config.value("architectures", Json::array());
  const std::string name =
      architectures.is_array() && !architectures.empty() && architectures.front().is_string()
          ? architectures.front().get<std::string>()
          : "";
  if (name.ends_with("ForConditionalGeneration")) return "AutoModelForSeq2SeqLM";
  if (name.ends_with("ForSequenceClassification")) return "AutoModelForSequenceClassification";
  if (name.ends_with("ForMaskedLM")) return "AutoModelForMaskedLM";
  return "AutoModel";
}

Error no_weights(const fs::path& folder, const std::string& stem) {
  const auto pickles = pickle_files(folder);
  if (pickles.empty()) {
    return input_error(
        "{}: neither {}.safetensors nor {}.safetensors.index.json is there; give the folder of a "
        "Hugging Face model",
        folder.string(), stem, stem);
  }
  const std::string known = auto_class(folder);
  return input_error(
      "{}: these weights are a pickle file, which could run code when read; convert them once: "
      "python -c \"{}\"",
      pickles.front().string(),
      known.empty()  // a Dense module of sentence-transformers, which lies in the model's folder
          ? fmt::format("from sentence_transformers import SentenceTransformer as S; "
                        "S('{0}').save_pretrained('{0}')",
                        folder.parent_path().string())
          : fmt::format("from transformers import {1} as A; "
                        "A.from_pretrained('{0}').save_pretrained('{0}', safe_serialization=True)",
                        folder.string(), known));
}

// tensor name -> shard file name
std::map<std::string, std::string> read_index(const fs::path& path) {
  const Json index = read_json(path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw input_error("{}: there is no `weight_map` object; download the model again",
                      path.string());
  }
  std::map<std::string, std::string> map;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || fs::path(name).filename() != name || name == "." || name == "..") {
      throw input_error(
          "{}: tensor `{}` is not mapped to a file of this folder; download the model again",
          path.string(), tensor);
    }
    if (!name.ends_with(".safetensors")) throw no_weights(path.parent_path(), "model");
    map[tensor] = name;
  }
  return map;
}

}  // namespace

ModelWeights::ModelWeights(const fs::path& folder, const std::string& stem) {
  const fs::path single = folder / (stem + ".safetensors"),
                 index = folder / (stem + ".safetensors.index.json");
  if (!fs::is_directory(folder))
    throw input_error("{}: there is no such folder; give the folder of a Hugging Face model",
                      folder.string());
  if (fs::exists(single)) {
    path_ = single;
    files_.emplace_back(single);
  } else if (fs::exists(index)) {
    path_ = index;
    const auto map = read_index(index);
    std::map<std::string, std::size_t> opened;
    for (const auto& [tensor, file] : map) {
      if (opened.contains(file)) continue;
      opened[file] = files_.size();
      files_.emplace_back(folder / file);
    }
    for (const auto& [tensor, file] : map) {
      if (files_[opened[file]].find(tensor) == nullptr) {
        throw input_error("{}: tensor `{}` should be in {} and is not; download the model again",
                          index.string(), tensor, file);
      }
    }
    for (const auto& file : files_) {
      for (const auto& tensor : file.tensors()) {
        if (!map.contains(tensor.name))
          throw input_error("{}: tensor `{}` of {} is not listed; download the model again",
                            index.string(), tensor.name, file.path().filename().string());
      }
    }
  } else {
    throw no_weights(folder, stem);
  }
  for (const auto& file : files_) {
    for (const auto& tensor : file.tensors()) {
      if (!by_name_.emplace(tensor.name, &tensor).second)
        throw input_error("{}: tensor `{}` is in two files; download the model again",
                          path_.string(), tensor.name);
    }
  }
}

const TensorView* ModelWeights::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const TensorView& ModelWeights::at(std::string_view name) const {
  const TensorView* found = find(name);
  if (found == nullptr)
    throw input_error("{}: there is no tensor `{}`; is config.json of the same model?",
                      path_.string(), name);
  return *found;
}

std::vector<std::string> ModelWeights::names() const {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : by_name_) all.push_back(name);
  return all;
}

void write_model_weights(const fs::path& folder, std::vector<TensorView> tensors,
                         std::int64_t max_shard_bytes,
                         const std::map<std::string, std::string>& metadata) {
  const std::int64_t total = std::accumulate(
      tensors.begin(), tensors.end(), std::int64_t{0},
      [](std::int64_t sum, const TensorView& t) { return sum + std::ssize(t.data); });
  const fs::path index = folder / "model.safetensors.index.json";
  if (total <= max_shard_bytes) {
    write_safetensors(folder / "model.safetensors", std::move(tensors), metadata);
    remove_file(index);
    return;
  }
  std::vector<std::vector<TensorView>> shards(1);
  std::int64_t filled = 0;
  for (auto& tensor : tensors) {
    const std::int64_t bytes = std::ssize(tensor.data);
    if (filled > 0 && filled + bytes > max_shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    shards.back().push_back(std::move(tensor));
  }
  Json map = Json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const auto& tensor : shards[i]) map[tensor.name] = name;
    write_safetensors(folder / name, std::move(shards[i]), metadata);
  }
  write_json(index, Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}});
  remove_file(folder / "model.safetensors");
}

}  // namespace gpuhpc
