#pragma once
// [taxoclass]: the constants of TaxoClass (Shen et al., NAACL 2021), a struct for each stage that
// reads them. The published values are the preset `paper`.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/labels/scoring.hpp"

namespace gpuhpc {

struct SimilarityOptions {
  static constexpr const char* section = "taxoclass";
  // embedding: the sentence encoder; nli: a cross-encoder with an entailment head; pair: one that
  // is trained here
  std::string backend = "embedding";
  // embedding: summed upwards from leaf posteriors, or each class's own cosine
  std::string calibration = "paths";
  std::string nli_model;  // nli: its folder
  void check() const;     // usage_error: nli without its model
};
struct EntailmentOptions {
  static constexpr const char* section = "taxoclass";
  bool full_matrix = false;  // nli, pair: every pair, not only those of the top-down search
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
};

}  // namespace gpuhpc
