#include "gpuhpc/pipelines/label/teleclass/hierarchy.hpp"

#include <algorithm>

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/pipelines/label/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"
#include "gpuhpc/pipelines/label/teleclass/variants/published_labels.hpp"

namespace gpuhpc {
namespace {

// Sums over the corpus of every path's posterior and of every class's marginal.
struct Mass {
  std::vector<float> paths, classes;
};

Mass sum_mass(const Taxonomy& taxonomy, MatrixView posterior, Communicator& comm) {
  FixedSums paths(1, posterior.columns), classes(1, taxonomy.size());
  const Range own = own_documents(posterior.rows, comm);
  Matrix marginals(document_block, taxonomy.size());
  for (std::int64_t first = own.first; first < own.last; first += document_block) {
    const MatrixView block =
        posterior.slice(first, std::min(own.last, first + document_block) - first);
    const MutableMatrixView values{marginals.values.data(), block.rows, taxonomy.size()};
    path_marginals(taxonomy, block, values);
    add_rows(block, paths);
    add_rows(values, classes);
  }
  comm.all_reduce(paths.words());
  comm.all_reduce(classes.words());
  return {mean_of(paths, 1), mean_of(classes, 1)};
}

void make_soft_targets(const StageContext& c, const Taxonomy& taxonomy, bool sharpened) {
  const MappedMatrix posterior(c.folder_of("refinement") / "posterior.h5");
  const MatrixView rows = posterior.view();
  const Mass mass = sum_mass(taxonomy, rows, c.comm);
  write_row_blocks(c.folder / "targets.h5", rows.rows, rows.columns, c.comm, c.device.threads,
                   [&](Range range, MutableMatrixView values) {
                     const MatrixView block = rows.slice(range.first, range.size());
                     if (sharpened)
                       sharpen_targets(block, mass.paths, values);
                     else
                       std::copy_n(block.data, block.rows * block.columns, values.data);
                   });
  on_root(c.comm, [&] {
    std::string lines = "class\texpected_documents\n";
    for (ClassId id = 0; id < taxonomy.size(); ++id)
      lines += fmt::format("{}\t{:.1f}\n", taxonomy.name(id),
                           mass.classes[static_cast<std::size_t>(id)]);
    write_text_file(c.folder / "documents_per_class.tsv", lines);
  });
}

}  // namespace

void run_hierarchy(const StageContext& c, const TeleclassPipelineOptions& o,
                   const InputLayout& layout) {
  Taxonomy taxonomy;
  together(c.comm, [&] { taxonomy = Taxonomy::load(layout.labels, layout.hierarchy); });
  if (o.teleclass.refinement == "soft")
    make_soft_targets(c, taxonomy, o.teleclass.targets == "sharpened");
  else
    make_training_labels(c, taxonomy);
}

}  // namespace gpuhpc
