#pragma once
// [teleclass]: the pipeline's own constants, a struct for each stage that reads them. Every
// published variant is a preset over these (see pipeline.hpp).
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

struct RefinementOptions {
  static constexpr const char* section = "teleclass";
  // soft: quality recipe, steps 3 to 8; paper, code: TELEClass; multi-gpu: top-20 means
  std::string kind = "soft";
  std::int64_t enrichment_terms = 20;  // terms kept per class (paper, code)
};
struct AugmentationOptions {
  static constexpr const char* section = "teleclass";
  // generated: from the input's files; pseudo: built from the corpus; none; auto
  std::string kind = "none";
  std::int64_t below = 15;     // a class with fewer documents is starved, gets pseudo-documents
  std::int64_t documents = 5;  // pseudo-documents per starved class
};
struct TargetOptions {
  static constexpr const char* section = "teleclass";
  std::string kind = "sharpened";  // what the student learns: F^2 / f_k, or the posterior F itself
};
struct TrainedHeadOptions {
  static constexpr const char* section = "teleclass";
  // student: soft targets over paths; bilinear: positives and negatives; none: no training
  std::string head = "student";
  bool train_encoder = true;   // bilinear: fine-tune the encoder or freeze it
  double positive_weight = 1;  // bilinear: weight of positive terms of the loss (multi-gpu: 10)
};
void declare(config::Section& section, RefinementOptions& options);
void declare(config::Section& section, AugmentationOptions& options);
void declare(config::Section& section, TargetOptions& options);
void declare(config::Section& section, TrainedHeadOptions& options);

struct TeleclassOptions {
  RefinementOptions refinement;
  AugmentationOptions augmentation;
  TargetOptions targets;
  TrainedHeadOptions training;
};

}  // namespace gpuhpc
