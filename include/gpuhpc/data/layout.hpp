#pragma once
// The input folder: TELEClass or course spellings, each file plain or .gz (the plain one when both
// are there).
#include <filesystem>
#include <memory>
#include <string>

#include "gpuhpc/data/corpus.hpp"

namespace gpuhpc {

// An empty path: the file is not there. Gold is a path only; nothing here opens it.
struct InputLayout {
  std::filesystem::path folder;
  std::filesystem::path labels;        // labels.txt | classes.txt
  std::filesystem::path hierarchy;     // label_hierarchy.txt | class_hierarchy.txt
  std::filesystem::path descriptions;  // label_descriptions.txt
  std::filesystem::path keywords;      // train/llm_enrichment.txt | class_related_keywords.txt
  std::filesystem::path
      train_corpus;  // train/corpus.txt | train/train_corpus.txt (or .jsonl, .csv, .tsv)
  std::filesystem::path
      test_corpus;  // test/corpus.txt | test/test_corpus.txt (or .jsonl, .csv, .tsv)
  std::filesystem::path generated_docs;    // train/generated_docs.txt
  std::filesystem::path generated_labels;  // train/generated_doc2label.json
  std::filesystem::path initial_core_classes, refined_core_classes, enrichment;  // train/...
  std::filesystem::path test_gold, train_gold;  // {test,train}/doc2labels.txt
  // With no train corpus the test texts serve, unlabelled: train_corpus == test_corpus then.
  bool test_serves_as_train = false;
};

// Throws input_error naming both spellings when labels, hierarchy or every corpus is missing, and
// when both spellings exist. need_corpus false: a folder with a taxonomy only is fine.
InputLayout resolve_layout(const std::filesystem::path& folder, bool need_corpus = true);

// One sentence on what was found, for the log.
std::string describe(const InputLayout& layout);

}  // namespace gpuhpc
