#include "gpuhpc/stages/taxoclass/similarity.hpp"

#include <algorithm>
#include <cmath>

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/stages/classify/corpus_blocks.hpp"
#include "gpuhpc/stages/classify/encoding.hpp"
#include "gpuhpc/stages/classify/posterior.hpp"
#include "gpuhpc/stages/classify/smoothing.hpp"
#include "gpuhpc/stages/taxoclass/backends/entailment.hpp"

namespace gpuhpc {
namespace {

// Bottom up: the probability that one of L leaves drawn from the document's posterior lies below the class.
void write_path_similarity(const StageContext& c, const Taxonomy& taxonomy, const DecodeOptions& decode) {
  const MappedMatrix posterior(c.folder / "posterior.h5");
  DecodeOptions options = decode;
  options.mode = "expected-f1";
  const Decoder decoder(taxonomy, options);
  write_row_blocks(c.folder / "similarity.h5", posterior.view().rows, taxonomy.size(), c.comm, c.device.threads, [&](Range rows, MutableMatrixView values) {
    path_marginals(taxonomy, posterior.view().slice(rows.first, rows.size()), values);
    for (std::int64_t i = 0; i < values.rows; ++i) std::ranges::copy(decoder.probabilities(values.row(i)), values.row(i).begin());
  });
}

// Each class by itself: a document as near to it as the ten nearest ones of the corpus on average gets one half.
void write_name_similarity(const StageContext& c, double temperature) {
  const MappedMatrix centred(c.folder / "centred.h5"), classes(c.folder / "classes.h5", "centred");
  const std::vector<float> hubness = find_hubness(centred.view(), classes.view(), c.comm);
  write_row_blocks(c.folder / "similarity.h5", centred.view().rows, classes.view().rows, c.comm, c.device.threads, [&](Range rows, MutableMatrixView values) {
    score_paths(centred.view().slice(rows.first, rows.size()), classes.view(), values);
    to_logits(values, hubness, temperature, 1);
    for (std::int64_t i = 0; i < values.rows * values.columns; ++i) values.data[i] = 1 / (1 + std::exp(-values.data[i]));
  });
}

}  // namespace

void run_similarity(const StageContext& c, const TaxoclassPipelineOptions& o, const InputLayout& layout) {
  Taxonomy taxonomy;
  together(c.comm, [&] { taxonomy = Taxonomy::load(layout.labels, layout.hierarchy); });
  run_encoding(c, o, layout);
  find_posterior(c, o, layout, taxonomy, c.folder);
  if (o.taxoclass.similarity == "nli") write_entailment(c, o, layout, taxonomy);
  else if (o.taxoclass.calibration == "paths") write_path_similarity(c, taxonomy, o.decode);
  else write_name_similarity(c, o.scoring.temperature);
}

}  // namespace gpuhpc
