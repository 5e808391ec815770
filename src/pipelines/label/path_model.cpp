#include "gpuhpc/pipelines/label/path_model.hpp"

#include "gpuhpc/labels/scoring.hpp"

namespace gpuhpc {

void PathModel::posterior(MatrixView centred, std::span<const std::string> texts,
                          const LexicalEvidence& lexical, MutableMatrixView posterior) const {
  score_paths(centred, vectors.view(), posterior);
  to_logits(posterior, hubness, temperature, csls);
  if (lexical_weight > 0) lexical.add(texts, lexical_weight, posterior);
  softmax_rows(posterior);
}

}  // namespace gpuhpc
