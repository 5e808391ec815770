#include "gpuhpc/data/layout.hpp"

#include <array>
#include <vector>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

constexpr std::array corpus_endings{".txt", ".jsonl", ".csv", ".tsv"};

// The plain file, else the .gz one, else empty.
fs::path present(const fs::path& path) {
  if (fs::is_regular_file(path)) return path;
  fs::path packed = path;
  packed += ".gz";
  return fs::is_regular_file(packed) ? packed : fs::path();
}

// The one of several spellings that is there.
fs::path one_of(const fs::path& folder, const std::vector<std::string>& spellings) {
  fs::path found;
  for (const auto& spelling : spellings) {
    const fs::path candidate = present(folder / spelling);
    if (candidate.empty()) continue;
    if (!found.empty())
      throw input_error("{}: both {} and {} are there; remove one", folder.string(), found.string(),
                        candidate.string());
    found = candidate;
  }
  return found;
}

fs::path needed(const fs::path& folder, const std::string& first, const std::string& second) {
  const fs::path found = one_of(folder, {first, second});
  if (found.empty())
    throw input_error(
        "{}: neither {} nor {} is there (plain or .gz); put one into the input folder",
        folder.string(), first, second);
  return found;
}

fs::path corpus(const fs::path& folder, const std::string& part) {
  std::vector<std::string> spellings;
  for (const char* ending : corpus_endings) {
    spellings.push_back(part + "/corpus" + ending);
    spellings.push_back(part + "/" + part + "_corpus" + ending);
  }
  return one_of(folder, spellings);
}

}  // namespace

InputLayout resolve_layout(const fs::path& folder, bool need_corpus) {
  if (!fs::is_directory(folder))
    throw input_error("{}: there is no such folder; give the folder of the input with --input.dir",
                      folder.string());
  InputLayout layout;
  layout.folder = folder;
  layout.labels = needed(folder, "labels.txt", "classes.txt");
  layout.hierarchy = needed(folder, "label_hierarchy.txt", "class_hierarchy.txt");
  layout.descriptions = present(folder / "label_descriptions.txt");
  layout.keywords = one_of(folder, {"train/llm_enrichment.txt", "class_related_keywords.txt"});
  layout.train_corpus = corpus(folder, "train");
  layout.test_corpus = corpus(folder, "test");
  layout.generated_docs = present(folder / "train/generated_docs.txt");
  layout.generated_labels = present(folder / "train/generated_doc2label.json");
  layout.initial_core_classes = present(folder / "train/init_core_classes.json");
  layout.refined_core_classes = present(folder / "train/refined_core_classes.json");
  layout.enrichment = present(folder / "train/enrichment.txt");
  layout.test_gold = present(folder / "test/doc2labels.txt");
  layout.train_gold = present(folder / "train/doc2labels.txt");
  if (layout.generated_docs.empty() != layout.generated_labels.empty()) {
    throw input_error(
        "{}: train/generated_docs.txt and train/generated_doc2label.json belong together and one "
        "is missing; add it or remove the other",
        folder.string());
  }
  if (layout.train_corpus.empty() && !layout.test_corpus.empty()) {
    layout.train_corpus = layout.test_corpus;
    layout.test_serves_as_train = true;
  }
  if (need_corpus && layout.train_corpus.empty()) {
    throw input_error(
        "{}: there is no text: neither train/corpus.txt, train/train_corpus.txt, test/corpus.txt "
        "nor test/test_corpus.txt (or .jsonl, "
        ".csv, .tsv, .gz)",
        folder.string());
  }
  return layout;
}

std::string describe(const InputLayout& layout) {
  const auto name = [&](const fs::path& path) {
    return path.empty() ? std::string("none") : path.lexically_relative(layout.folder).string();
  };
  std::string text = fmt::format(
      "{}: classes {}, hierarchy {}, train texts {}, test texts {}", layout.folder.string(),
      name(layout.labels), name(layout.hierarchy),
      layout.test_serves_as_train ? "none (the test texts take their place, without labels)"
                                  : name(layout.train_corpus),
      name(layout.test_corpus));
  if (!layout.descriptions.empty()) text += ", descriptions " + name(layout.descriptions);
  if (!layout.keywords.empty()) text += ", keywords " + name(layout.keywords);
  if (!layout.generated_docs.empty())
    text += ", generated documents " + name(layout.generated_docs);
  return text;
}

}  // namespace gpuhpc
