#include "gpuhpc/pipelines/label/taxoclass/similarity.hpp"

#include <cmath>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/pipelines/label/posterior.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"

namespace gpuhpc {

void PathSimilarityStage::run(const StageContext& c, const SimilarityFiles& out) const {
  Taxonomy classes;
  run_collectively(c.comm, [&] { classes = taxonomy.load(); });
  const MappedMatrix rows(posterior.posterior);
  write_row_blocks(out.similarity, rows.view().rows, classes.size(), c.comm, c.device.threads,
                   [&](Range range, MutableMatrixView values) {
                     leaf_probabilities(classes, expected_leaves.value,
                                        rows.view().slice(range.first, range.size()), values);
                   });
}

void NameSimilarityStage::run(const StageContext& c, const SimilarityFiles& out) const {
  const MappedMatrix centred(encoding.centred), classes(encoding.classes, "centred");
  const std::vector<float> hubness = find_hubness(centred.view(), classes.view(), c.comm);
  write_row_blocks(out.similarity, centred.view().rows, classes.view().rows, c.comm,
                   c.device.threads, [&](Range rows, MutableMatrixView values) {
                     score_paths(centred.view().slice(rows.first, rows.size()), classes.view(),
                                 values);
                     to_logits(values, hubness, scoring.temperature, 1);
                     for (std::int64_t i = 0; i < values.rows * values.columns; ++i)
                       values.data[i] = 1 / (1 + std::exp(-values.data[i]));
                   });
}

}  // namespace gpuhpc
