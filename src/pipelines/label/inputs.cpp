#include "gpuhpc/pipelines/label/inputs.hpp"

#include <algorithm>
#include <unordered_set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/class_files.hpp"
#include "gpuhpc/data/layout.hpp"
#include "gpuhpc/eval/documents.hpp"
#include "gpuhpc/pipelines/label/given_labels.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// Gives warnings.
std::vector<std::string> check_classes(const TaxonomyFiles& taxonomy, const ClassFiles& classes) {
  const Taxonomy names = taxonomy.load();
  if (!classes.descriptions.empty()) read_class_descriptions(classes.descriptions, names.labels());
  if (!classes.keywords.empty()) read_class_terms(classes.keywords, names.labels());
  if (!classes.generated_docs.empty())
    read_generated_documents(classes.generated_docs, classes.generated_labels, names.labels());
  std::vector<std::string> warnings;
  const ClassWords words(names);
  for (ClassId c = 0; c < names.size(); ++c)
    if (const auto read = words.find(names.label(c)); read && *read != c) {
      warnings.push_back(
          fmt::format("{}: the name `{}` of class {} is read as the id of another where label "
                      "files name classes; write ids there.",
                      taxonomy.labels.string(), names.label(c), c));
      break;
    }
  if (names.size() == std::ssize(names.roots()))
    warnings.push_back(fmt::format("{} holds no edge: the {} classes are taken as a flat list.",
                                   taxonomy.hierarchy.string(), names.size()));
  return warnings;
}

}  // namespace

std::vector<std::string> ScannedCorpus::settings() const {
  std::vector<std::string> lines = config::settings_of(scan.options);
  lines.push_back(fmt::format("{} = {}", is_test ? "test texts" : "texts", scan.content));
  return lines;
}

LabelInputs find_inputs(const InputOptions& input, const CorpusOptions& format, bool labels_text,
                        Communicator& comm) {
  InputLayout layout;
  run_collectively(comm, [&] {
    layout = resolve_layout(input.dir);
    if (layout.test_corpus.empty() && labels_text)
      throw input_error(
          "{}: there are no test texts to label; put test/corpus.txt (.jsonl, .csv, .tsv, .gz) "
          "into the input folder, or stop before the last stage with --pipeline.to",
          input.dir);
  });
  LabelInputs inputs;
  inputs.taxonomy = {layout.labels, layout.hierarchy};
  inputs.classes = {layout.descriptions, layout.keywords, layout.generated_docs,
                    layout.generated_labels};
  on_root(comm, [&] { inputs.warnings = check_classes(inputs.taxonomy, inputs.classes); });
  inputs.labels = {input.labels};
  if (!input.labels.empty())
    on_root(comm,
            [&] { inputs.labelled = read_given_labels(input.labels, inputs.taxonomy.load()).ids; });
  const auto missing_of = [&](const fs::path& corpus, CorpusScan& scan) {
    std::unordered_set<std::string> missing(inputs.labelled.begin(), inputs.labelled.end());
    scan = scan_corpus(corpus, format, comm,
                       [&](const Document& document) { missing.erase(document.id); });
    return missing;
  };
  inputs.train.is_test = layout.test_serves_as_train;
  const auto missing = missing_of(layout.train_corpus, inputs.train.scan);
  on_root(comm, [&] {
    if (!missing.empty()) throw unknown_document(input.labels, *std::ranges::min_element(missing));
  });
  inputs.test = inputs.train;
  if (!layout.test_serves_as_train && !layout.test_corpus.empty()) {
    const auto others = missing_of(layout.test_corpus, inputs.test.scan);
    if (const auto both = inputs.labelled.size() - others.size(); both > 0)
      inputs.warnings.push_back(fmt::format(
          "{} of the {} ids in {} are in both corpora; their labels are taken to belong to the "
          "documents of {}.",
          both, inputs.labelled.size(), input.labels, layout.train_corpus.string()));
  }
  inputs.gold = layout.test_gold;
  inputs.description = describe(layout);
  if (layout.test_serves_as_train)
    inputs.warnings.emplace_back(
        "No training corpus was given: the test texts were used in its place, without labels.");
  return inputs;
}

}  // namespace gpuhpc
