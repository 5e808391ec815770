#pragma once
// The README.md of a trained model, as model hubs show it.
#include <filesystem>
#include <string>
#include <vector>

namespace gpuhpc {

using Cells = std::vector<std::string>;

// The same text for the same facts; what stands in tables is written so that Markdown shows it as
// it is.
struct ModelCard {
  std::string front;          // lines of its YAML
  std::string title, about;   // Markdown
  std::string use;            // Markdown: how to load it
  std::vector<Cells> data;    // with their header
  std::vector<Cells> scores;  // with their header; none: nothing was measured
  Cells settings;             // "section.key = value"
  std::string text() const;
};

// `text` so that Markdown shows it as it is.
std::string as_it_is(const std::string& text);

// The files of `trained` with this card in the folder `model`, sealed by a manifest.
void save_with_card(const std::filesystem::path& trained, const std::filesystem::path& model,
                    const ModelCard& card);

}  // namespace gpuhpc
