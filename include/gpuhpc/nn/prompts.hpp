#pragma once
// Texts that a sentence-transformers folder puts before those it encodes
// (config_sentence_transformers.json): "query: " of E5 and the like.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace gpuhpc {

struct Prompts {
  // The word in the place of a prompt that leaves the choice to the folder.
  static constexpr const char* of_folder = "auto";
  std::vector<std::pair<std::string, std::string>> texts;  // name and text, in the file's order
  std::string default_name;                                // of one of them; empty: none

  const std::string* find(const std::string& name) const;  // null: there is no such prompt
  // What `given` means: "auto" the folder's default, a name the prompt of that name, else itself.
  std::string text(const std::string& given = of_folder) const;
  void set(const std::string& name, const std::string& text);
  // Makes text(given) the default.
  void choose(const std::string& given);
  bool operator==(const Prompts&) const = default;
};

// None where the folder has no such file. input_error for one that is not as it should be.
Prompts read_prompts(const std::filesystem::path& folder);
// The file of `source`, with these prompts in the place of its own.
void write_prompts(const std::filesystem::path& folder, const Prompts& prompts,
                   const std::filesystem::path& source);

}  // namespace gpuhpc
