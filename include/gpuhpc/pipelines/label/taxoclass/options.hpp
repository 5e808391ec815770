#pragma once
// [taxoclass]: the constants of TaxoClass (Shen et al., NAACL 2021). The published values are the
// preset `paper`.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/labels/scoring.hpp"

namespace gpuhpc {

struct TaxoclassOptions {
  // 1 similarity
  std::string similarity = "embedding";  // the sentence encoder; nli: a cross-encoder with an
                                         // entailment head; pair: one that is trained here
  std::string nli_model;                 // nli: its folder
  std::string hypothesis = "this example is {}.";
  std::int64_t premise_tokens = 500;
  std::int64_t pair_examples = 32768, pair_epochs = 1;  // pair: what it learns from
  double pair_rate = 1e-4;                              // of its encoder
  bool full_matrix =
      false;  // nli, pair: every pair, not only those that the top-down search asks for
  std::string calibration =
      "paths";  // embedding: summed upwards from leaf posteriors, or each class's own cosine
  // 2 cores
  bool positive_confidence = true;  // conf > 0 beside conf >= the class's median
  bool against_parents = false;     // conf against siblings and parents, or siblings alone
  // 3 classifier
  std::string features = "embedding";  // of classes: their vectors of stage 1, or the mean word
                                       // embedding of their names
  std::int64_t graph_hidden = 256, graph_layers = 2;
  bool graph_residual = true;  // and centred: against over-smoothing
  double graph_rate = 3e-5;
  double scale = 20;             // of logits
  std::string link = "sigmoid";  // from logits to probabilities; sigmoid-exp as published
  Link link_kind() const { return link == "sigmoid" ? Link::sigmoid : Link::sigmoid_exp; }
  double held_out = .05;  // share of the documents whose silver labels only judge self-training
  // 4 self-training
  std::int64_t batches = 200;  // at most; 0: none
  std::int64_t refresh = 25;   // batches between two target distributions
  double encoder_rate = 1e-6, head_rate = 1e-4;
  // 5 inference
  std::string labels_from =
      "ensemble";  // similarity (of the sentence encoder), classifier, or ensemble: the classifier
                   // smoothed with neighbours in the corpus and averaged with the similarity
};
void declare(config::Section& section, TaxoclassOptions& options);

}  // namespace gpuhpc
