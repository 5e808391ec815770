#pragma once
// From class probabilities of one document to its labels. Ties: the class nearer to the root, then
// the lower id.
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/decode_options.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

class Decoder {
 public:
  Decoder(const Taxonomy& taxonomy,
          const DecodeOptions& options);  // keeps a reference to the taxonomy

  // marginals (classes): m_c of path_marginals, or a head's sigmoid probabilities (then
  // expected_leaves should be 1). posterior (K), optional: chooses the best path of a class on a
  // DAG; without it, the path with the largest sum of probabilities. Most probable first; never
  // empty. Every value is finite (check_scores). One document; safe to call from several threads.
  std::vector<ClassId> decode(std::span<const float> marginals,
                              std::span<const float> posterior = {}) const;

  // p_c = 1 - (1 - m_c)^L: what expected-f1 ranks and counts (quality recipe, step 10).
  std::vector<float> probabilities(std::span<const float> marginals) const;

 private:
  std::vector<ClassId> expected_f1(std::span<const float> marginals,
                                   std::span<const float> posterior) const;
  std::vector<ClassId> chain(std::span<const float> marginals) const;
  std::vector<ClassId> ranked(std::span<const float> scores,
                              std::size_t count) const;  // the best `count`
  void add_best_paths(std::span<const float> scores, std::span<const float> posterior,
                      std::vector<ClassId>& accepted) const;
  const Taxonomy& taxonomy_;
  DecodeOptions options_;
};

// The probability that one of L (expected_leaves) leaves drawn from each document's posterior lies
// at or below each class. posterior (B,K), probabilities (B,C).
void leaf_probabilities(const Taxonomy& taxonomy, double expected_leaves, MatrixView posterior,
                        MutableMatrixView probabilities);

}  // namespace gpuhpc
