#pragma once
// Targets of self-training (TaxoClass S4; Xie et al. 2016, eq. 3, in the form for many labels a
// document). They depend on sums over the WHOLE corpus: ranks add the sums of their documents,
// all-reduce words(), and make the targets of any document from them.
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/vectors.hpp"

namespace gpuhpc {

// Row 0 of sums (2, C) += sum over documents of p; row 1 += sum of 1 - p. probabilities (B, C).
void add_probability_sums(MatrixView probabilities, FixedSums& sums);

// q_ij = (p_ij^2 / f_j) / (p_ij^2 / f_j + (1 - p_ij)^2 / g_j); f, g: rows 0 and 1 of sums. targets
// (B, C).
void self_training_targets(MatrixView probabilities, const FixedSums& sums,
                           MutableMatrixView targets);

}  // namespace gpuhpc
