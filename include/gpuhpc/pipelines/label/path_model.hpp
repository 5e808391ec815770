#pragma once
// Scores of documents against root-to-leaf paths (quality recipe, steps 3 to 7), as the refinement
// learns them and as new text is scored.
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/lexical.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

struct PathModel {
  Matrix vectors;              // (K,H)
  std::vector<float> hubness;  // r (K)
  double temperature = 20, csls = .25, lexical_weight = 1;

  // softmax over paths of temperature (x'.c - csls r) + lexical; centred (B,H), texts (B),
  // posterior (B,K).
  void posterior(MatrixView centred, std::span<const std::string> texts,
                 const LexicalEvidence& lexical, MutableMatrixView posterior) const;
};

}  // namespace gpuhpc
