#pragma once
// The only reader of gold labels. Nothing that learns may include this header: the evaluate stage
// alone does, and the test of the include order fails on any other.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/eval/documents.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// N documents in file order.
struct GoldLabels {
  std::filesystem::path path;                      // named in errors
  std::vector<std::string> ids;                    // (N) unique
  std::vector<std::vector<std::int32_t>> classes;  // (N) ascending, unique, never empty
};

// doc2labels.txt, `id<TAB>1,2,3` (class ids or names), .gz or not. Throws input_error naming file
// and line for a missing tab, an unknown or repeated class, a document given twice, a document
// without classes, and a file without documents.
GoldLabels read_gold(const std::filesystem::path& path, const Taxonomy& taxonomy);

// Joins by document id, in the order of gold. Predicted documents without gold are left out and
// counted; gold documents without prediction count as an empty prediction and are counted. Throws
// input_error when no document is common.
LabelledDocuments pair_with_gold(const GoldLabels& gold, const Predictions& predictions);
// A sentence for each of these two counts that is not zero.
std::vector<std::string> uncovered(const LabelledDocuments& documents,
                                   const std::filesystem::path& gold);

}  // namespace gpuhpc
