#include "gpuhpc/pipelines/label/taxoclass/similarity.hpp"

#include <cmath>

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/pipelines/label/posterior.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"
#include "gpuhpc/pipelines/label/taxoclass/backends/entailment.hpp"

namespace gpuhpc {
namespace {

void write_path_similarity(const StageContext& c, const Taxonomy& taxonomy,
                           const DecodeOptions& decode) {
  const MappedMatrix posterior(c.folder_of("posterior") / "posterior.h5");
  write_row_blocks(c.folder / "similarity.h5", posterior.view().rows, taxonomy.size(), c.comm,
                   c.device.threads, [&](Range rows, MutableMatrixView values) {
                     leaf_probabilities(taxonomy, decode,
                                        posterior.view().slice(rows.first, rows.size()), values);
                   });
}

// Each class by itself: a document as near to it as the ten nearest ones of the corpus on average
// gets one half.
void write_name_similarity(const StageContext& c, double temperature) {
  const auto encoding = c.folder_of("encoding");
  const MappedMatrix centred(encoding / "centred.h5"), classes(encoding / "classes.h5", "centred");
  const std::vector<float> hubness = find_hubness(centred.view(), classes.view(), c.comm);
  write_row_blocks(c.folder / "similarity.h5", centred.view().rows, classes.view().rows, c.comm,
                   c.device.threads, [&](Range rows, MutableMatrixView values) {
                     score_paths(centred.view().slice(rows.first, rows.size()), classes.view(),
                                 values);
                     to_logits(values, hubness, temperature, 1);
                     for (std::int64_t i = 0; i < values.rows * values.columns; ++i)
                       values.data[i] = 1 / (1 + std::exp(-values.data[i]));
                   });
}

}  // namespace

void run_similarity(const StageContext& c, const TaxoclassPipelineOptions& o,
                    const InputLayout& layout) {
  Taxonomy taxonomy;
  together(c.comm, [&] { taxonomy = Taxonomy::load(layout.labels, layout.hierarchy); });
  if (o.taxoclass.similarity == "nli")
    write_entailment(c, o, taxonomy, o.taxoclass.nli_model);
  else if (o.taxoclass.similarity == "pair")
    write_entailment(c, o, taxonomy, c.folder_of("pair-model") / "model");
  else if (o.taxoclass.calibration == "paths")
    write_path_similarity(c, taxonomy, o.decode);
  else
    write_name_similarity(c, o.scoring.temperature);
}

}  // namespace gpuhpc
