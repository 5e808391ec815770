#pragma once
// Steps 3-7 of the quality recipe, on blocks of documents. B documents of a block, K root-to-leaf
// paths, D width. Cut documents into blocks by base/block.hpp: sums over documents are then the
// same bits on any number of ranks.
//   pass 1: score_paths, top.add               -> merge over ranks -> hubness r (K)
//   pass 2: score_paths, to_logits, add_lexical, softmax_rows, add_soft_sums   -> all-reduce
//   sums.words() -> refined_paths pass 3: score_paths with the refined vectors, to_logits,
//   add_lexical, softmax_rows = P1
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/lexical.hpp"
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/labels/vectors.hpp"

namespace gpuhpc {

// (K, D): row k is the class vector of the leaf that ends path k.
Matrix path_vectors(const Taxonomy& taxonomy, MatrixView class_vectors);

// s(d,k) = x'_d . path_k. documents (B, D), paths (K, D), scores (B, K).
void score_paths(MatrixView documents, MatrixView paths, MutableMatrixView scores);

// From a logit to a probability: sigmoid(z), or sigmoid(exp(z)) as TaxoClass prints it (Shen et al.
// 2021, section 3.3), never below one half.
enum class Link { sigmoid, sigmoid_exp };
// p_dc = link(x'_d . v_c + b_c): a trained head over classes on new rows. documents (B, D), vectors
// (C, D), bias (C) or empty.
void class_probabilities(MatrixView documents, MatrixView vectors, std::span<const float> bias,
                         MutableMatrixView probabilities, Link link = Link::sigmoid);
// b (C) such that the mean over the rows of sigmoid(z + b) is each class's share, by bisection.
// logits z (B, C).
std::vector<float> bias_for_shares(MatrixView logits, std::span<const float> shares);

// The n largest scores of each path over documents: half CSLS needs their mean r_k (Conneau et al.
// 2018, eq. 6, halved).
class TopScores {
 public:
  explicit TopScores(std::int64_t paths, std::int64_t n = 10);
  void add(MatrixView scores);  // (B, K)
  void merge(std::span<const float>
                 others);  // values() of any number of other ranks, one behind the other
  std::span<const float> values() const {
    return values_;
  }                                  // (K, n) descending, -infinity where there are fewer
  std::vector<float> means() const;  // r (K); 0 for a path without any score

 private:
  void offer(std::int64_t path, float score);
  std::int64_t paths_, n_;
  std::vector<float> values_;
};

// z = temperature * (s - csls * r_k), in place. r empty: no CSLS.
void to_logits(MutableMatrixView scores, std::span<const float> hubness, double temperature,
               double csls);
// Each row becomes its softmax.
void softmax_rows(MutableMatrixView logits);

// sums (K, D) += posterior^T documents. posterior (B, K), documents (B, D).
void add_soft_sums(MatrixView posterior, MatrixView documents, FixedSums& sums);
// (K, D): c_k = unit(name_votes * path_k + sum over documents of P0(d,k) x'_d).
Matrix refined_paths(MatrixView paths, const FixedSums& sums, double name_votes);

// Step 9: m_c = sum of F over the paths through c. posterior (B, K) -> marginals (B, classes).
void path_marginals(const Taxonomy& taxonomy, MatrixView posterior, MutableMatrixView marginals);

// Throws the error of exit 76, naming document (as `document` calls a row) and class, when a score
// is NaN or infinite. scores (B, classes).
void check_scores(MatrixView scores, const Taxonomy& taxonomy,
                  const std::function<std::string(std::int64_t row)>& document);

// Step 11 targets: Q = F^2 / f_k, rows renormalised to 1; f (K) = sum over training documents of F
// (add_rows).
void sharpen_targets(MatrixView posterior, std::span<const float> path_sums,
                     MutableMatrixView targets);

// Neighbour smoothing of posteriors (quality recipe, step 8): F <- keep * P + (1 - keep) * A F, row
// block by row block, so that ranks own rows; the caller gathers F between rounds.

// own (B, K): P of the block's rows. neighbours: row j = the block's row j, columns = rows of
// `all`, weights sum to 1. all (N, K): F of all training documents after the round before. smoothed
// (B, K), may not alias all. A row without neighbours keeps P. Used alike for test rows (neighbours
// among the training rows).
void smooth_rows(MatrixView own, const SparseMatrix& neighbours, MatrixView all, double keep,
                 MutableMatrixView smoothed);

// Average of two posteriors over the same rows, in place into `first` (step 11: student and
// teacher).
void average_into(MutableMatrixView first, MatrixView second);

// Targets of self-training (TaxoClass S4; Xie et al. 2016, eq. 3, in the form for many labels a
// document). They depend on sums over the WHOLE corpus: ranks add the sums of their documents,
// all-reduce words(), and make the targets of any document from them.

// Row 0 of sums (2, C) += sum over documents of p; row 1 += sum of 1 - p. probabilities (B, C).
void add_probability_sums(MatrixView probabilities, FixedSums& sums);

// q_ij = (p_ij^2 / f_j) / (p_ij^2 / f_j + (1 - p_ij)^2 / g_j); f, g: rows 0 and 1 of sums. targets
// (B, C).
void self_training_targets(MatrixView probabilities, const FixedSums& sums,
                           MutableMatrixView targets);

// Scores of documents against root-to-leaf paths (quality recipe, steps 3 to 7), as the refinement
// learns them and as new text is scored.
struct PathModel {
  Matrix vectors;              // (K,H)
  std::vector<float> hubness;  // r (K)
  double temperature = 20, csls = .25, lexical_weight = 1;

  // softmax over paths of temperature (x'.c - csls r) + lexical; centred (B,H), texts (B),
  // posterior (B,K).
  void posterior(MatrixView centred, std::span<const std::string> texts,
                 const LexicalEvidence& lexical, MutableMatrixView posterior) const;
  // The same without lexical evidence.
  void posterior(MatrixView centred, MutableMatrixView posterior) const;
};

// A head over classes, p_c = sigmoid(x'.v_c + b_c), as a posterior over paths: the odds of each
// path's leaf, p / (1 - p), as shares of their sum. The head was taught by silver labels, of which
// a document has as many as there are; their number says nothing of how many leaves documents have.
// A posterior has one leaf a draw, so that --decode.expected-leaves means what it means of a
// teacher's or a student's, on any corpus. vectors (C,H), bias (C).
PathModel leaf_odds(const Taxonomy& taxonomy, MatrixView vectors, std::span<const float> bias);

// Temperature scaling (Guo et al. 2017, section 4.2) without labels: the T of 1/16 to 16 with which
// softmax(logits / T) has the smallest cross-entropy to targets, the posterior of another model.
// logits, targets (B,K), rows of targets of sum 1.
double scaling_temperature(MatrixView logits, MatrixView targets);

}  // namespace gpuhpc
