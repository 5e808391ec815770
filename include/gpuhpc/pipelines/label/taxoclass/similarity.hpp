#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// sim(d, c) of every document and class, of the sentence encoder: probabilities summed upwards from
// the paths' posterior.
struct PathSimilarityStage {
  using Outputs = SimilarityFiles;
  TaxonomyFiles taxonomy;
  PosteriorFiles posterior;
  ExpectedLeavesOption expected_leaves;
  void run(const StageContext& context, const SimilarityFiles& out) const;
};

// Each class by itself: a document as near to it as the ten nearest ones of the corpus on average
// gets one half.
struct NameSimilarityStage {
  using Outputs = SimilarityFiles;
  EncodingFiles encoding;
  ScoringOptions scoring;
  void run(const StageContext& context, const SimilarityFiles& out) const;
};

// Of a cross-encoder, given or the one that the stage pair-model trained: P(entailment | premise d,
// hypothesis: the template filled with c's name), scored level by level along the top-down search
// alone, or for all classes. Blocks of documents that are done wait in the checkpoint folder, so a
// stopped run goes on after them. The same bits on any number of ranks.
template <class Model>  // ModelFiles or TrainedFiles
struct EntailmentStage {
  using Outputs = SimilarityFiles;
  TaxonomyFiles taxonomy;
  EncodingFiles encoding;
  Model model;
  InferOptions infer;
  StatementOptions statements;
  EntailmentOptions options;
  void check() const { statements.check(); }
  void run(const StageContext& context, const SimilarityFiles& out) const;
};

}  // namespace gpuhpc
