#include "gpuhpc/pipelines/label/teleclass/hierarchy.hpp"

#include <algorithm>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/class_files.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/core_classes.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/class_list_files.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"

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

void write_per_class(const std::filesystem::path& path, const Taxonomy& taxonomy,
                     const std::string& head, const auto& count) {
  std::string lines = "class\t" + head + "\n";
  for (ClassId id = 0; id < taxonomy.size(); ++id)
    lines += fmt::format("{}\t{}\n", taxonomy.label(id), count(static_cast<std::size_t>(id)));
  write_text_file(path, lines);
}

}  // namespace

void SoftTargetStage::run(const StageContext& c, const TargetFiles& out) const {
  Taxonomy classes;
  run_collectively(c.comm, [&] { classes = taxonomy.load(); });
  const MappedMatrix mapped(posterior.posterior);
  const MatrixView rows = mapped.view();
  const Mass mass = sum_mass(classes, rows, c.comm);
  write_row_blocks(out.targets, rows.rows, rows.columns, c.comm, c.device.threads,
                   [&](Range range, MutableMatrixView values) {
                     const MatrixView block = rows.slice(range.first, range.size());
                     if (options.kind == "sharpened")
                       sharpen_targets(block, mass.paths, values);
                     else
                       std::copy_n(block.data, block.rows * block.columns, values.data);
                   });
  on_root(c.comm, [&] {
    write_per_class(out.per_class, classes, "expected_documents",
                    [&](std::size_t id) { return fmt::format("{:.1f}", mass.classes[id]); });
  });
}

void TrainingLabelStage::run(const StageContext& c, const LabelFiles& out) const {
  on_root(c.comm, [&] {
    const Taxonomy classes = taxonomy.load();
    const TokenDataset documents(encoding.tokens);
    const std::vector<ClassList> cores = read_class_lists(refined.refined, documents, classes);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(classes.size()));
    JsonlWriter writer(out.labels);
    const auto write = [&](std::string_view id, const ClassList& list, bool generated) {
      const TrainingLabels labels = training_labels(classes, list);
      for (const ClassId positive : labels.positives) ++counts[static_cast<std::size_t>(positive)];
      writer.write(Json{{"id", id},
                        {"positives", labels.positives},
                        {"masked", labels.masked},
                        {"generated", generated}});
    };
    for (std::int64_t i = 0; i < documents.size(); ++i)
      write(documents.id(i), cores[static_cast<std::size_t>(i)], false);
    if (std::filesystem::file_size(augmentation.documents) > 0) {
      const GeneratedDocuments extra =
          read_generated_documents(augmentation.documents, augmentation.labels, classes.labels());
      for (std::size_t i = 0; i < extra.target.size(); ++i)
        write(extra.documents.ids[i], {extra.target[i]}, true);
    }
    writer.commit();
    write_per_class(out.per_class, classes, "documents",
                    [&](std::size_t id) { return counts[id]; });
  });
}

}  // namespace gpuhpc
