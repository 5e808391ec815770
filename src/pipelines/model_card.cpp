#include "gpuhpc/pipelines/model_card.hpp"

#include <span>

#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/manifest.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {

std::string as_it_is(const std::string& text) {
  constexpr std::string_view special = "\\`*_[]<>|~#&$!";
  std::string out;
  for (const char c : text) {
    if (special.find(c) != special.npos) out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out;
}

namespace {

std::string row(const Cells& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + as_it_is(cell) + " |";
  return line + "\n";
}

// The first row is the header.
std::string table(std::span<const Cells> rows) {
  std::string text = row(rows.front()) + "|";
  for (std::size_t i = 0; i < rows.front().size(); ++i) text += "---|";
  text += "\n";
  for (const Cells& cells : rows.subspan(1)) text += row(cells);
  return text + "\n";
}

}  // namespace

std::string ModelCard::text() const {
  std::string text = "---\n" + front + "---\n\n# " + title + "\n\n" + about + "\n\n## Use\n\n" +
                     use + "\n## Data\n\n" + table(data);
  if (scores.size() > 1)
    text += "## Scores\n\n`start` is the model before training.\n\n" + table(scores);
  std::vector<Cells> values{{"option", "value"}};
  for (const std::string& line : settings) {
    const std::size_t equals = line.find(" = ");
    values.push_back({line.substr(0, equals), line.substr(equals + 3)});
  }
  return text + "## Settings\n\n" + table(values);
}

void save_with_card(const std::filesystem::path& trained, const std::filesystem::path& model,
                    const ModelCard& card) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(trained))
    if (entry.is_regular_file())
      link_file(entry.path(), model / entry.path().lexically_relative(trained));
  write_text_file(model / "README.md", card.text());
  seal_model(model);
}

}  // namespace gpuhpc
