#pragma once
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

// The posterior of every document over root-to-leaf paths (quality recipe, steps 3 to 8), and each
// document's best path in TELEClass's format. TELEClass's phase 2, TaxoClass's stage `posterior`.
struct PosteriorStage {
  using Outputs = PosteriorFiles;
  TaxonomyFiles taxonomy;
  EncodingFiles encoding;
  ScoringOptions scoring;
  SoftRefinementOptions refinement;
  SmoothingOptions smoothing;
  TfidfOptions tfidf;
  NeighbourOptions neighbours;
  void run(const StageContext& context, const PosteriorFiles& out) const;
};

// For half CSLS: the mean of the 10 largest scores of each vector over the corpus. centred x'
// (N,H), vectors (K,H) -> (K). Collective.
std::vector<float> find_hubness(MatrixView centred, MatrixView vectors, Communicator& comm);

}  // namespace gpuhpc
