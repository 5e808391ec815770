#pragma once
// Files keyed by class: keywords, descriptions, generated documents. Errors are input_errors
// "FILE:LINE: ...". `class_names`: Taxonomy::labels(), index = class id.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpuhpc/data/corpus.hpp"

namespace gpuhpc {

// `name:kw1,kw2,...` by class NAME (llm_enrichment.txt, class_related_keywords.txt,
// enrichment.txt): terms of each class, trimmed, `_` to space, duplicates dropped, in the order of
// the file; a class without a row has none. A row that is one glued keyword stays one term. An
// unknown name or a second row for a name is an error.
std::vector<std::vector<std::string>> read_class_terms(const std::filesystem::path& path,
                                                       const std::vector<std::string>& class_names);

// `id<TAB>description`; a class without a row has "".
std::vector<std::string> read_class_descriptions(const std::filesystem::path& path,
                                                 const std::vector<std::string>& class_names);

struct GeneratedDocuments {
  Corpus documents;
  std::vector<std::int32_t> target;               // class each was written for
  std::vector<std::vector<std::int32_t>> labels;  // with ancestors, as the file says, ascending
};
// generated_docs.txt with generated_doc2label.json ({id: {"core_classes": id, "with ancestors":
// [...]}}).
GeneratedDocuments read_generated_documents(const std::filesystem::path& documents,
                                            const std::filesystem::path& labels,
                                            const std::vector<std::string>& class_names);

}  // namespace gpuhpc
