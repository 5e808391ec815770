#pragma once
// [teleclass]: the pipeline's own constants. Every published variant is a preset over these (see
// presets.hpp).
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

struct TeleclassOptions {
  // 2 refinement
  std::string refinement =
      "soft";  // soft: quality recipe steps 3-8; paper, code: TELEClass; multi-gpu: top-20 means
  std::int64_t enrichment_terms = 20;  // terms kept a class (paper, code)
  // 3 augmentation
  std::string augmentation =
      "none";  // generated: from the input's files; pseudo: built from the corpus; none; auto
  std::int64_t augment_below =
      15;  // a class with fewer documents is starved and gets pseudo-documents
  std::int64_t augment_documents = 5;  // pseudo-documents a starved class
  // 4 hierarchy
  std::string targets =
      "sharpened";  // what the student learns: F^2 / f_k, or the posterior F itself
  // 5 training
  std::string head = "student";  // student: soft targets over paths; bilinear: positives and
                                 // negatives; none: no training
  bool train_encoder = true;     // bilinear: fine-tune the encoder or freeze it
  double positive_weight = 1;    // bilinear: weight of positive terms of the loss (multi-gpu: 10)
};
void declare(config::Section& section, TeleclassOptions& options);

}  // namespace gpuhpc
