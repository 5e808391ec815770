#pragma once
// Top-down candidate search of TaxoClass (Shen et al. 2021, section 3.2) and TELEClass (Zhang et
// al. 2025, section 3.1), one document at a time.
#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// sim(c,d) = max over the texts t of class c of documents_d . texts_t. documents (B, D), texts (T,
// D), owner (T) ascending, similarity (B, classes); a class without a text gets -1.
void best_text_similarity(MatrixView documents, MatrixView texts, std::span<const ClassId> owner,
                          MutableMatrixView similarity);

enum class PathScore {
  exponential,  // TELEClass: product of exp(sim) along the path
  probability   // TaxoClass: product of sim, which is a probability
};

struct CandidateOptions {
  // a node at level l proposes its best l + extra_children children; level 0 is above the roots
  std::int64_t extra_children = 3;
  // of level l's proposals the best (l + pool_base)^2 are kept; all of level 0's
  std::int64_t pool_base = 2;
  PathScore score = PathScore::exponential;
};
CandidateOptions teleclass_candidates();  // l + 3, (l + 2)^2, exponential
CandidateOptions taxoclass_candidates();  // l + 2, (l + 1)^2, probability

struct Candidate {
  ClassId id = 0;
  double score = 0;        // of the best path by which the class was reached
  std::int64_t level = 0;  // 1 = a root
};

// The search, one level at a time: only the similarities of needed() have to be known before each
// advance().
class CandidateSearch {
 public:
  CandidateSearch(const Taxonomy& taxonomy,
                  const CandidateOptions& options);  // keeps a reference to the taxonomy
  // Classes looked at by the next advance(), ascending, each once; empty when the search is over.
  std::vector<ClassId> needed() const;
  void advance(std::span<const float> similarity);  // (classes)
  // Every class ever kept, in the order in which it was kept (level, then score; ties: lower id). A
  // class reached again at a deeper level is not scored again; a parent that was not expanded
  // contributes nothing.
  const std::vector<Candidate>& candidates() const { return all_; }

 private:
  const Taxonomy& taxonomy_;
  CandidateOptions options_;
  std::int64_t depth_ = 0;
  std::vector<Candidate> level_,
      all_;  // level_: nodes to expand; empty at depth 0, which stands above the roots
  std::vector<bool> kept_;
};

// The whole search. similarity (classes).
std::vector<Candidate> find_candidates(const Taxonomy& taxonomy, std::span<const float> similarity,
                                       const CandidateOptions& options);

}  // namespace gpuhpc
