#pragma once
// Which classes are taken for which of their siblings.
#include <cstdint>
#include <vector>

#include "gpuhpc/eval/documents.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// The children of one parent (or the roots), k of them. A document with gold class i of the group
// adds 1 to row i: to the diagonal when i is predicted too; else in equal parts to the predicted
// siblings that are not gold; else to the last column.
struct SiblingConfusion {
  std::int32_t parent = -1;           // -1: the roots
  std::vector<std::int32_t> classes;  // (k) ascending
  std::vector<double> counts;  // (k, k + 1): gold class x predicted sibling; last column: no other
                               // sibling predicted
  double confused =
      0;  // sum off the diagonal without the last column: what the groups are ordered by
};

// Groups of two or more classes in which anything was confused, the worst first, at most `limit`.
std::vector<SiblingConfusion> sibling_confusion(const Taxonomy& taxonomy,
                                                const LabelledDocuments& documents,
                                                std::size_t limit);

}  // namespace gpuhpc
