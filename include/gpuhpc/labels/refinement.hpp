#pragma once
// Core class refinement of TELEClass (section 3.2, eq. 5) and of its multi-GPU variant.
#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/labels/vectors.hpp"

namespace gpuhpc {

// Class vector = mean embedding of the documents of D_c that hold a term of c. documents (B, D);
// cores: of each; terms: ids of the terms in each document, ascending; class_terms: of each class,
// ascending. sums (classes, D) and counts (classes) are all-reduced (sum) over ranks.
void add_class_documents(const Taxonomy& taxonomy, MatrixView documents,
                         std::span<const std::vector<ClassId>> cores,
                         std::span<const std::vector<std::int32_t>> document_terms,
                         std::span<const std::vector<std::int32_t>> class_terms, FixedSums& sums,
                         std::span<std::int64_t> counts);
// (classes, D): unit mean; a class without documents keeps the row of `fallback` (its text's
// vector).
Matrix mean_class_vectors(const FixedSums& sums, std::span<const std::int64_t> counts,
                          MatrixView fallback);

struct GapCut {
  std::vector<ClassId> classes;  // most similar first
  float confidence = 0;          // the gap at which the list was cut
};
// Classes by similarity (ties: lower id), cut at the largest gap s_i - s_{i+1}, 1 <= i <= first
// (ties: smaller i); then at least `minimum` classes. TELEClass: first 3, minimum 1; multi-GPU:
// first 5, minimum 2. similarity (classes).
GapCut cut_at_gap(std::span<const float> similarity, std::int64_t first, std::int64_t minimum);

// Which documents to keep: the ceil(share * N) most confident (ties: lower index). confidences (N)
// of all ranks.
std::vector<bool> keep_confident(std::span<const float> confidences, double share);

// The n most similar documents of every class (multi-GPU variant: 20; pseudo-documents: nearest
// sentences).
class TopDocuments {
 public:
  struct Entry {
    float score = 0;
    std::int64_t document = -1;  // -1: unused
  };
  TopDocuments(std::int64_t classes, std::int64_t n);
  void add(MatrixView scores,
           std::int64_t first_document);  // (B, classes); row j is document first_document + j
  void merge(std::span<const float> scores,
             std::span<const std::int64_t> documents);       // of any number of ranks
  std::span<const float> scores() const { return scores_; }  // (classes, n) descending
  std::span<const std::int64_t> documents() const {
    return documents_;
  }                                               // (classes, n); ties: lower document first
  std::vector<std::int64_t> of(ClassId c) const;  // used entries of one class

 private:
  void offer(std::int64_t c, float score, std::int64_t document);
  std::int64_t classes_, n_;
  std::vector<float> scores_;
  std::vector<std::int64_t> documents_;
};

// One round of the multi-GPU variant: class vector = unit mean of its top documents. Every rank
// adds the rows it owns (documents first_document .. + B), all-reduces sums and counts, then
// mean_class_vectors.
void add_top_documents(const TopDocuments& top, MatrixView documents, std::int64_t first_document,
                       FixedSums& sums, std::span<std::int64_t> counts);

}  // namespace gpuhpc
