#pragma once
// What a few labelled documents teach: where the posterior was wrong about them, it is moved for
// documents like them (Gaussian process regression on residuals: Rasmussen and Williams 2006,
// section 2.2; as universal kriging does in space).
#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// By which documents are compared: x' (B,H) and the square roots of the posterior over paths (B,K),
// each divided by sqrt(2), to (B,H+K). A product of two such rows is the mean of the cosine of the
// texts and the Bhattacharyya coefficient of their posteriors.
Matrix text_and_posterior(MatrixView centred, MatrixView posterior);

// How alike two unit vectors are: exp(3 (a.b - 1)), 1 for the same one. documents (B,W), others
// (n,W), similarities (B,n).
void similarities(MatrixView documents, MatrixView others, MutableMatrixView similarities);

// What a class of probability p moves by for each unit that the process predicts: 9/4 p^1/4
// (1 - p)^3/4. A label says more about classes whose truth is open than about those near 0 and 1.
float gain(float p);

// Probabilities (B,C) moved by so much (B,C): upwards by a tanh of what is left to 1, downwards to
// no less than a thousandth of themselves. What these bounds add to the sum over classes is taken
// off all of them alike, and a class is never less probable than a child that has no other parent.
void move_probabilities(const Taxonomy& taxonomy, MatrixView moves,
                        MutableMatrixView probabilities);

struct LabelCorrection {
  Matrix documents;  // (n,H+K) text_and_posterior of the labelled ones
  Matrix weights;    // (C,n): what each of them adds to a class, times similarity and gain
  // With which probabilities were made of marginals: L, and that of the softmax.
  double expected_leaves = 1, softmax_leaves = 1;
  double lift = 0;  // log odds of p above 1/4 grow by 4 lift (p - 1/4) (1 - p)

  // x' (B,H), posterior (B,K); its marginals m_c (B,C) in, probabilities out: probability(m_c, ..)
  // moved and lifted. Safe to call from several threads.
  void apply(const Taxonomy& taxonomy, MatrixView centred, MatrixView posterior,
             MutableMatrixView scores) const;
};

// What each of others (n,H) stands for: the share of documents (B,H) that are more like it than
// like any other of them. (n), of sum 1.
std::vector<double> shares_of_nearest(MatrixView documents, MatrixView others);

// The L of .1 to 100 with which the probabilities of membership of marginals (n,C) sum to as many
// classes as truth (n,C) has, document i counting weights[i] times.
double leaves_for(MatrixView marginals, MatrixView truth, std::span<const double> weights);

// Documents worth labelling next, best first: each lowers most what is not known about all, the sum
// over documents of their uncertainty times the fall of their variance under that process. compared
// (N,H+K) text_and_posterior; uncertainty (N), not negative; the first `known` rows are labelled.
// Memory: N^2 floats.
std::vector<std::int64_t> select_documents(MatrixView compared, std::span<const double> uncertainty,
                                           std::int64_t known, std::int64_t count);

}  // namespace gpuhpc
