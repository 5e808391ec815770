#pragma once
// What the labelling job adds to the shared options. A struct holds what the same stages read, so
// that an option reruns no other stage; several may share a section.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/labels/decode_options.hpp"
#include "gpuhpc/labels/scoring.hpp"
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
// What is put before class texts, as PromptOption before documents.
struct ClassPromptOption {
  static constexpr const char* section = "model";
  std::string given = Prompts::of_folder;
};
struct CentringOptions {
  static constexpr const char* section = "scoring";
  double share = .5;  // of the mean, taken off documents and classes, at least: centring_share
};
struct ScoringOptions {
  static constexpr const char* section = "scoring";
  double temperature = 20;  // of cosines
  double csls = .25;        // share of the hubness mean r that is taken off scores
  double lexical = 1;       // weight of class-name words found in the document
};
// The option scoring.temperature of the presets recommended and fixed (quality recipe, step 4).
std::pair<std::string, std::string> temperature_for(double expected_leaves);
struct SoftRefinementOptions {
  static constexpr const char* section = "scoring";
  double name_votes = 3;  // weight of the class vector against its documents; 0: no refinement
  double csls_fit = .5;   // share of the way from csls to likeliest_csls
};
struct SmoothingOptions {
  static constexpr const char* section = "scoring";
  std::int64_t rounds = 3;  // 0: no neighbour smoothing
};
void declare(config::Section& section, ClassTextOptions& options);
void declare(config::Section& section, ClassPromptOption& option);
void declare(config::Section& section, CentringOptions& options);
void declare(config::Section& section, ScoringOptions& options);
void declare(config::Section& section, SoftRefinementOptions& options);
void declare(config::Section& section, SmoothingOptions& options);

// What scores new text as the corpus was scored.
struct PathScoring {
  ScoringOptions scores;
  CentringOptions centring;
  SmoothingOptions smoothing;
  TfidfOptions tfidf;
  NeighbourOptions neighbours;
};

// One value of a section that a stage reads without the rest.
struct ExpectedLeavesOption {
  static constexpr const char* section = "decode";
  double value = 0;
};
void declare(config::Section& section, ExpectedLeavesOption& option);

// [teleclass]: the constants of its six phases. Every published variant is a preset over these.
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
  // what the student learns: F^2 / f_k, the posterior F itself, or core classes
  std::string kind = "sharpened";
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

// [taxoclass]: the constants of TaxoClass (Shen et al., NAACL 2021); the published values are the
// preset `paper`.
struct SimilarityOptions {
  static constexpr const char* section = "taxoclass";
  // embedding: the sentence encoder; nli: a cross-encoder with an entailment head; pair: one that
  // is trained here
  std::string backend = "embedding";
  // embedding: summed upwards from leaf posteriors, or each class's own cosine
  std::string calibration = "paths";
  std::string nli_model;  // nli: its folder
  bool sums_paths() const { return backend == "embedding" && calibration == "paths"; }
};
struct EntailmentOptions {
  static constexpr const char* section = "taxoclass";
  bool full_matrix = false;  // nli, pair: every pair, not only those of the top-down search
  std::int64_t batch = 0;    // nli, pair: pairs scored at once at most; 0: [infer] says
};
struct StatementOptions {
  static constexpr const char* section = "taxoclass";
  std::string hypothesis = "this example is {}.";
  std::int64_t premise_tokens = 500;
  void check() const;  // usage_error: a hypothesis without a place for the class's name
};
struct PairModelOptions {
  static constexpr const char* section = "taxoclass";
  std::int64_t examples = 32768, epochs = 1;  // what it learns from
  double encoder_rate = 1e-4;
};
struct CoreOptions {
  static constexpr const char* section = "taxoclass";
  bool positive_confidence = true;  // conf > 0 beside conf >= the class's median
  bool against_parents = false;     // conf against siblings and parents, or siblings alone
};
struct GraphOptions {
  static constexpr const char* section = "taxoclass";
  // of classes: their vectors of stage 1, or the mean word embedding of their names
  std::string features = "embedding";
  std::int64_t hidden = 256, layers = 2;
  bool residual = true;  // and centred: against over-smoothing
  double rate = 3e-5;
  double scale = 20;             // of logits
  std::string link = "sigmoid";  // from logits to probabilities; sigmoid-exp as published
  double held_out = .05;  // share of the documents whose silver labels only judge self-training
  Link link_kind() const { return link == "sigmoid" ? Link::sigmoid : Link::sigmoid_exp; }
};
struct SelfTrainingOptions {
  static constexpr const char* section = "taxoclass";
  std::int64_t batches = 200;  // at most; 0: none
  std::int64_t refresh = 25;   // batches between two target distributions
  double encoder_rate = 1e-6, head_rate = 1e-4;
  // similarity (of the sentence encoder), classifier, or ensemble: the classifier smoothed with
  // neighbours in the corpus and averaged with the similarity
  std::string labels_from = "ensemble";
};
void declare(config::Section& section, SimilarityOptions& options);
void declare(config::Section& section, EntailmentOptions& options);
void declare(config::Section& section, StatementOptions& options);
void declare(config::Section& section, PairModelOptions& options);
void declare(config::Section& section, CoreOptions& options);
void declare(config::Section& section, GraphOptions& options);
void declare(config::Section& section, SelfTrainingOptions& options);

struct TaxoclassOptions {
  SimilarityOptions similarity;
  EntailmentOptions entailment;
  StatementOptions statements;
  PairModelOptions pair;
  CoreOptions cores;
  GraphOptions graph;
  SelfTrainingOptions self_training;
  // usage_error: nli without its model; parents as rivals of probabilities that are summed upwards
  void check() const;
};

// [pipeline]: what the encoder learns from the unlabelled training corpus before anything else.
struct AdaptationKindOption {
  static constexpr const char* section = "pipeline";
  // sentences: first sentences and the rests of their texts as pairs; auto: the same, unless that
  // harms or there are few; neighbours: texts and one that is near by words and by vectors; both;
  // mlm: masked-language modelling goes on
  std::string value = "none";
  bool may_be_dropped() const { return value == "auto"; }
  bool wants_neighbours() const { return value == "neighbours" || value == "both"; }
};
struct AdaptationTextsOption {  // of sentences, neighbours, both
  static constexpr const char* section = "pipeline";
  std::int64_t most = 16384;  // texts, spread evenly over the corpus; 0: all
};
struct AdaptationOptions {  // how
  static constexpr const char* section = "pipeline";
  std::int64_t epochs = 2;
  std::int64_t batch = 32;  // pairs per update: each has the texts of the others as negatives
  double rate = 2e-5;       // of a batch of --train.base-batch
};
void declare(config::Section& section, AdaptationKindOption& option);
void declare(config::Section& section, AdaptationTextsOption& option);
void declare(config::Section& section, AdaptationOptions& options);

struct LabelOptions {
  AdaptationKindOption adaptation_kind;
  AdaptationTextsOption adaptation_texts;
  AdaptationOptions adaptation;
  ClassPromptOption class_prompt;
  ClassTextOptions class_texts;
  SoftRefinementOptions soft_refinement;
  PathScoring scoring;
  DecodeOptions decode;
  SubmissionOptions submission;
  TeleclassOptions teleclass;
  TaxoclassOptions taxoclass;

  // for stages that see no labelled documents
  ExpectedLeavesOption leaves() const { return {decode.leaves()}; }
};

}  // namespace gpuhpc
