#include "gpuhpc/pipelines/embedding/model_card.hpp"

#include <fmt/ranges.h>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {
namespace {

std::string name_of(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace

ModelCard model_card(const CardFacts& facts) {
  return {.front =
              "library_name: sentence-transformers\npipeline_tag: sentence-similarity\ntags:\n"
              "- sentence-transformers\n- sentence-similarity\n- feature-extraction\n",
          .title = "Sentence encoder",
          .about = fmt::format(
              "Gives a text a vector of {} numbers; texts that belong together have vectors with a "
              "high cosine.\nTrained by gpuhpc from {}; texts are cut after {} tokens.",
              facts.dimensions, as_it_is(facts.start), facts.max_tokens),
          .use =
              "```python\nfrom sentence_transformers import SentenceTransformer\n\n"
              "model = SentenceTransformer(\"FOLDER\")\nvectors = model.encode([\"a text\", "
              "\"another text\"])\nprint(model.similarity(vectors, vectors))\n```\n\n"
              "```\ngpuhpc encode --model.dir FOLDER --input.file texts.jsonl --output.file "
              "vectors.jsonl\n```\n",
          .data = facts.data,
          .scores = facts.scores,
          .settings = facts.settings};
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
                    .data = {{"used to", "file", "rows", "columns"}},
                    .scores = read_table(evaluation.table),
                    .settings = learnt.settings()};
    for (const auto& [role, name, columns, shards] : names.files)
      facts.data.push_back(
          {role, name, std::to_string(open_datasets(shards).at(0).size()), columns});
    for (const auto& [name, text] : model.prompts.texts)
      if (!text.empty()) facts.settings.push_back(fmt::format("prompt.{} = \"{}\"", name, text));
    for (const auto& lines :
         {config::settings_of(training.encoder), config::settings_of(training.trainer.train)})
      facts.settings.insert(facts.settings.end(), lines.begin(), lines.end());
    save_with_card(trained.model, out.model, model_card(facts));
  });
}

}  // namespace gpuhpc
