#pragma once
// What the labelling job adds to the shared options. A struct holds what the same stages read, so
// that an option reruns no other stage; several may share a section.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/labels/decode_options.hpp"
#include "gpuhpc/pipelines/label/taxoclass/options.hpp"
#include "gpuhpc/pipelines/label/teleclass/options.hpp"
#include "gpuhpc/pipelines/options.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"
#include "gpuhpc/retrieval/tfidf.hpp"

namespace gpuhpc {

// [scoring]: how documents are held against classes (quality recipe, steps 1 to 8).
struct ClassTextOptions {
  static constexpr const char* section = "scoring";
  std::string kind = "five";  // five: name, path and sentence templates; name: the name alone;
                              // keywords: the multi-GPU description
  bool descriptions = true;
};
struct CentringOptions {
  static constexpr const char* section = "scoring";
  double share = .5;  // of the mean, taken off documents and classes
};
struct ScoringOptions {
  static constexpr const char* section = "scoring";
  double temperature = 20;  // of cosines
  double csls = .25;        // share of the hubness mean r that is taken off scores
  double lexical = 1;       // weight of class-name words found in the document
};
struct SoftRefinementOptions {
  static constexpr const char* section = "scoring";
  double name_votes = 3;  // weight of the class vector against its documents; 0: no refinement
};
struct SmoothingOptions {
  static constexpr const char* section = "scoring";
  std::int64_t rounds = 3;  // 0: no neighbour smoothing
};
void declare(config::Section& section, ClassTextOptions& options);
void declare(config::Section& section, CentringOptions& options);
void declare(config::Section& section, ScoringOptions& options);
void declare(config::Section& section, SoftRefinementOptions& options);
void declare(config::Section& section, SmoothingOptions& options);

// [train], beside the Trainer's own: how the encoder learns. Defaults are those of the student
// (quality recipe, step 11).
struct FineTuneOptions {
  static constexpr const char* section = "train";
  double encoder_rate = 3e-5, head_rate = 1e-3;
  std::int64_t max_length = 96;  // tokens per document
  std::int64_t layers =
      3;               // top encoder layers that learn; 0: the head alone; -1: all, embeddings too
  double dropout = 0;  // in the encoder
};
void declare(config::Section& section, FineTuneOptions& options);

// What every stage that fine-tunes the encoder is handed.
struct FineTuning {
  FineTuneOptions encoder;
  TrainingOptions trainer;
};

// What scores new text as the corpus was scored.
struct PathScoring {
  ScoringOptions scores;
  CentringOptions centring;
  SmoothingOptions smoothing;
  TfidfOptions tfidf;
  NeighbourOptions neighbours;
};

// One value of a section that a stage reads without the rest.
struct SeedOption {
  static constexpr const char* section = "train";
  std::int64_t value = 42;
};
struct ExpectedLeavesOption {
  static constexpr const char* section = "decode";
  double value = 1.5;
};
struct LabelLimits {
  static constexpr const char* section = "decode";
  std::int64_t minimum = 2, maximum = 12;
};
void declare(config::Section& section, SeedOption& option);
void declare(config::Section& section, ExpectedLeavesOption& option);
void declare(config::Section& section, LabelLimits& limits);

struct LabelOptions {
  ClassTextOptions class_texts;
  SoftRefinementOptions soft_refinement;
  PathScoring scoring;
  FineTuneOptions fine_tune;
  DecodeOptions decode;
  SubmissionOptions submission;
  TeleclassOptions teleclass;
  TaxoclassOptions taxoclass;

  ExpectedLeavesOption expected_leaves() const { return {decode.expected_leaves}; }
  LabelLimits label_limits() const { return {decode.minimum, decode.maximum}; }
};

}  // namespace gpuhpc
