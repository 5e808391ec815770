#include "gpuhpc/pipelines/embedding/model_card.hpp"

#include <fmt/ranges.h>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/io/manifest.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {
namespace {

using Cells = std::vector<std::string>;

std::string escaped(const std::string& text) {
  constexpr std::string_view special = "\\`*_[]<>|~#&$!";
  std::string out;
  for (const char c : text) {
    if (special.find(c) != special.npos) out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out;
}

std::string row(const Cells& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + escaped(cell) + " |";
  return line + "\n";
}

std::string table(const Cells& header, std::span<const Cells> rows) {
  std::string text = row(header) + "|";
  for (std::size_t i = 0; i < header.size(); ++i) text += "---|";
  text += "\n";
  for (const Cells& cells : rows) text += row(cells);
  return text + "\n";
}

std::string name_of(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace

std::string model_card(const CardFacts& facts) {
  std::string text =
      "---\nlibrary_name: sentence-transformers\npipeline_tag: sentence-similarity\ntags:\n"
      "- sentence-transformers\n- sentence-similarity\n- feature-extraction\n---\n\n"
      "# Sentence encoder\n\n";
  text += fmt::format(
      "Gives a text a vector of {} numbers; texts that belong together have vectors with a high "
      "cosine.\nTrained by gpuhpc from {}; texts are cut after {} tokens.\n\n",
      facts.dimensions, escaped(facts.start), facts.max_tokens);
  text +=
      "## Use\n\n```python\nfrom sentence_transformers import SentenceTransformer\n\n"
      "model = SentenceTransformer(\"FOLDER\")\nvectors = model.encode([\"a text\", \"another "
      "text\"])\nprint(model.similarity(vectors, vectors))\n```\n\n"
      "```\ngpuhpc encode --model.dir FOLDER --input.file texts.jsonl --output.file "
      "vectors.jsonl\n```\n\n";
  text += "## Data\n\n" + table({"used to", "file", "rows", "columns"}, facts.data);
  if (facts.scores.size() > 1) {
    text += "## Scores\n\n`start` is the encoder before training.\n\n";
    text += table(facts.scores.front(), std::span(facts.scores).subspan(1));
  }
  text += "## Settings\n\n";
  std::vector<Cells> settings;
  for (const std::string& line : facts.settings) {
    const std::size_t equals = line.find(" = ");
    settings.push_back({line.substr(0, equals), line.substr(equals + 3)});
  }
  return text + table({"option", "value"}, settings);
}

DataNames::DataNames(const std::vector<PairDataset>& datasets, const PairFileOptions& common,
                     const PairTokenFiles& tokens) {
  const auto add = [&](const std::string& role, const std::string& path, const std::string& columns,
                       const std::filesystem::path& shards) {
    if (!path.empty()) files.push_back({role, name_of(path), columns, shards});
  };
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const auto& [name, weight, own, loss] = datasets[i];
    const std::string of = name.empty() ? "" : fmt::format(" {}", name);
    add("learn" + of, own.train, own.columns, tokens.train_of(i));
    add("validate" + of, own.validation, own.columns, tokens.validation_of(i));
  }
  add("measure", common.test, common.test_columns.empty() ? common.columns : common.test_columns,
      tokens.test);
}

std::vector<std::string> DataNames::settings() const {
  std::vector<std::string> lines;
  for (const One& file : files)
    lines.push_back(fmt::format("{} = {}|{}", file.role, file.name, file.columns));
  return lines;
}

void ModelCardStage::run(const StageContext& c, const CardFiles& out) const {
  on_root(c.comm, [&] {
    const ModelFolder model = read_model_folder(trained.model);
    CardFacts facts{.start = name_of(encoder.folder.path),
                    .dimensions = model.embedding.width(model.encoder.hidden_size),
                    .max_tokens = model.embedding.max_tokens,
                    .data = {},
                    .scores = read_table(evaluation.table),
                    .settings = learnt.settings()};
    for (const auto& [role, name, columns, shards] : names.files)
      facts.data.push_back(
          {role, name, std::to_string(open_datasets(shards).at(0).size()), columns});
    for (const auto& lines :
         {config::settings_of(training.encoder), config::settings_of(training.trainer.train)})
      facts.settings.insert(facts.settings.end(), lines.begin(), lines.end());
    for (const auto& entry : std::filesystem::recursive_directory_iterator(trained.model))
      if (entry.is_regular_file())
        link_file(entry.path(), out.model / entry.path().lexically_relative(trained.model));
    write_text_file(out.model / "README.md", model_card(facts));
    seal_model(out.model);
  });
}

}  // namespace gpuhpc
