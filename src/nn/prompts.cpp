#include "gpuhpc/nn/prompts.hpp"

#include <gpuhpc/io/atomic_file.hpp>

#include <algorithm>

#include "config_keys.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

constexpr const char* prompts_file = "config_sentence_transformers.json";

}  // namespace

const std::string* Prompts::find(const std::string& name) const {
  const auto found = std::ranges::find(texts, name, &std::pair<std::string, std::string>::first);
  return found == texts.end() ? nullptr : &found->second;
}

std::string Prompts::text(const std::string& given) const {
  if (given == of_folder) return default_name.empty() ? "" : *find(default_name);
  const std::string* const named = find(given);
  return named != nullptr ? *named : given;
}

void Prompts::set(const std::string& name, const std::string& text) {
  for (auto& [known, value] : texts)
    if (known == name) {
      value = text;
      return;
    }
  texts.emplace_back(name, text);
}

void Prompts::choose(const std::string& given) {
  if (given == of_folder) return;
  if (find(given) != nullptr) {
    default_name = given;
  } else if (given.empty()) {
    default_name.clear();
  } else {
    default_name = "default";
    set(default_name, given);
  }
}

Prompts read_prompts(const fs::path& folder) {
  Prompts prompts;
  if (!fs::exists(folder / prompts_file)) return prompts;
  const Keys keys(folder / prompts_file);
  if (keys.has("prompts")) {
    if (!keys.at("prompts").is_object())
      throw input_error("{}: \"prompts\" must be an object of names and texts", keys.file());
    // As they stand in the file: `Json` sorts them.
    const auto ordered = nlohmann::ordered_json::parse(read_text_file(folder / prompts_file));
    for (const auto& [name, text] : ordered.at("prompts").items()) {
      if (!text.is_string() && !text.is_null())
        throw input_error("{}: the prompt \"{}\" must be a text", keys.file(), name);
      prompts.texts.emplace_back(name, text.is_null() ? "" : text.get<std::string>());
    }
  }
  prompts.default_name = keys.text("default_prompt_name", "");
  if (!prompts.default_name.empty() && prompts.find(prompts.default_name) == nullptr)
    throw input_error("{}: \"default_prompt_name\" is \"{}\", which \"prompts\" does not have",
                      keys.file(), prompts.default_name);
  return prompts;
}

void write_prompts(const fs::path& folder, const Prompts& prompts, const fs::path& source) {
  const bool there = fs::exists(source / prompts_file);
  if (prompts == read_prompts(source)) {
    if (there) gpuhpc::copy_file(source / prompts_file, folder / prompts_file);
    return;
  }
  auto json = there ? nlohmann::ordered_json::parse(read_text_file(source / prompts_file))
                    : nlohmann::ordered_json{{"similarity_fn_name", "cosine"}};
  json["prompts"] = nlohmann::ordered_json::object();
  for (const auto& [name, text] : prompts.texts) json["prompts"][name] = text;
  json["default_prompt_name"] = nullptr;
  if (!prompts.default_name.empty()) json["default_prompt_name"] = prompts.default_name;
  write_json(folder / prompts_file, json);
}

}  // namespace gpuhpc
