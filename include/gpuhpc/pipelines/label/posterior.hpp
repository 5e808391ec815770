#pragma once
#include <filesystem>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

// The posterior of every document over root-to-leaf paths (quality recipe, steps 3 to 8), from what
// run_encoding left in `encoding`. Outputs:
//   paths.h5      "vectors" (K,H), "hubness" (K), "idf" (T)   first_posterior.h5  "values" (N,K) P1
//   posterior.h5  "values" (N,K) F                            neighbours.h5       sparse A (N,N);
//   tfidf.h5 terms and idf
void find_posterior(const StageContext& context, const ClassifyOptions& options,
                    const Taxonomy& taxonomy, const std::filesystem::path& encoding);

// For half CSLS: the mean of the 10 largest scores of each vector over the corpus. centred x'
// (N,H), vectors (K,H) -> (K). Collective.
std::vector<float> find_hubness(MatrixView centred, MatrixView vectors, Communicator& comm);

}  // namespace gpuhpc
