#include "gpuhpc/data/layout.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

constexpr std::array corpus_endings{".txt", ".jsonl", ".csv", ".tsv"};

constexpr std::array other_train_files{
    "llm_enrichment.txt",     "generated_docs.txt",        "generated_doc2label.json",
    "init_core_classes.json", "refined_core_classes.json", "enrichment.txt",
    "doc2labels.txt"};

// A name that is there must be that of a file that can be read; whether it is there must be known.
bool is_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status named = fs::symlink_status(path, error);
  if (named.type() == fs::file_type::not_found) return false;
  if (!fs::status_known(named)) throw system_error("look at", path, error.value());
  const fs::file_status status = fs::status(path, error);
  if (fs::is_regular_file(status)) return true;
  const char* what = fs::is_directory(status) ? "is a folder"
                     : fs::is_symlink(named) && !fs::exists(status)
                         ? "is a link to something that is not there"
                         : "is no regular file";
  throw input_error("{}: it {}, a file was expected; put the file there or remove it",
                    path.string(), what);
}

// The plain file, else the .gz one, else empty.
fs::path present(const fs::path& path) {
  const fs::path packed = path.string() + ".gz";
  const bool plain = is_file(path), also = is_file(packed);
  return plain ? path : also ? packed : fs::path();
}

// With no training corpus a file in train/ that has no other meaning is probably one.
void refuse_misnamed(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  if (error && error != std::errc::no_such_file_or_directory)
    throw system_error("look into", folder, error.value());
  if (error && fs::is_symlink(folder))
    throw input_error("{}: it is a link to something that is not there; mend or remove it",
                      folder.string());
  for (const auto& entry : entries) {
    std::string name = entry.path().filename();
    if (name.ends_with(".gz")) name.resize(name.size() - 3);
    if (name.starts_with('.') || name.starts_with("README") ||
        std::ranges::find(other_train_files, name) != other_train_files.end())
      continue;
    throw input_error(
        "{}: no file of this folder has this name, and there is no training corpus; name it "
        "corpus.txt (.jsonl, .csv, .tsv, .gz) or remove it",
        entry.path().string());
  }
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

fs::path needed(const fs::path& folder, const std::string& first, const std::string& second,
                const char* cure) {
  const fs::path found = one_of(folder, {first, second});
  if (found.empty())
    throw input_error(
        "{}: neither {} nor {} is there (plain or .gz); put one into the input folder{}",
        folder.string(), first, second, cure);
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
  if (std::error_code error; !fs::is_directory(folder, error)) {
    if (error && error != std::errc::no_such_file_or_directory)
      throw system_error("look into", folder, error.value());
    throw input_error("{}: there is no such folder; give the folder of the input with --input.dir",
                      folder.string());
  }
  InputLayout layout;
  layout.folder = folder;
  layout.labels = needed(folder, "labels.txt", "classes.txt", "");
  layout.hierarchy = needed(folder, "label_hierarchy.txt", "class_hierarchy.txt",
                            ", an empty one for classes without a hierarchy");
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
    refuse_misnamed(folder / "train");
    layout.train_corpus = layout.test_corpus;
    layout.test_serves_as_train = true;
  }
  if (need_corpus && layout.train_corpus.empty()) {
    throw input_error(
        "{}: there is no text: neither train/corpus.txt, train/train_corpus.txt, test/corpus.txt "
        "nor test/test_corpus.txt (or .jsonl, .csv, .tsv, .gz)",
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
