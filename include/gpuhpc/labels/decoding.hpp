#pragma once
// From class probabilities of one document to its labels. Ties: the class nearer to the root, then
// the lower id.
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/decode_options.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// p = 1 - (1 - m)^L: the probability that one of L leaves lies at or below a class of marginal m
// (quality recipe, step 10). m is taken within 0 and 1.
double membership(double marginal, double expected_leaves);
void to_memberships(MutableMatrixView marginals, double expected_leaves);  // in place

// L^(1/4). A document of several leaves shares its evidence among them: the softmax over paths is
// flatter by this factor (quality recipe, step 4), and scores are as much surer than it says.
double flatness(double expected_leaves);

// How sure one may be of a class: the odds are p to (1 - m)^flatness (quality recipe, step 10). p
// takes the L leaves for independent draws; but what misleads one of them misleads all, so a miss
// is counted about as often as one draw misses. m itself when both L are 1.
// softmax_leaves: the L that the softmax was flattened for, where L came to be known after it.
double probability(double marginal, double expected_leaves, double softmax_leaves);
inline double probability(double marginal, double expected_leaves) {
  return probability(marginal, expected_leaves, expected_leaves);
}
void to_probabilities(MutableMatrixView marginals, double expected_leaves,
                      double softmax_leaves);  // in place
inline void to_probabilities(MutableMatrixView marginals, double expected_leaves) {
  to_probabilities(marginals, expected_leaves, expected_leaves);
}

class Decoder {
 public:
  Decoder(const Taxonomy& taxonomy,
          const DecodeOptions& options);  // keeps a reference to the taxonomy

  // marginals (classes): m_c of path_marginals, or a head's sigmoid probabilities (then
  // expected_leaves should be 1). posterior (K), optional: chooses the best path of a class on a
  // DAG; without it, the path with the largest sum of probabilities. Most probable first; never
  // empty. Every value is finite (check_scores). told: the marginals are 1 for the classes that a
  // person gave the document (ModelCorrection), which it keeps in every mode, and gets no other.
  // One document; safe to call from several threads.
  std::vector<ClassId> decode(std::span<const float> marginals,
                              std::span<const float> posterior = {}, bool told = false) const;

  // probability() of each class of one document: what threshold compares.
  std::vector<float> probabilities(std::span<const float> marginals) const;

 private:
  std::vector<float> memberships(std::span<const float> marginals) const;
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

// Memberships of documents' posteriors. posterior (B,K), probabilities (B,C).
void leaf_probabilities(const Taxonomy& taxonomy, double expected_leaves, MatrixView posterior,
                        MutableMatrixView probabilities);

}  // namespace gpuhpc
