#include "gpuhpc/pipelines/label/correction.hpp"

#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/pipelines/label/given_labels.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

void CorrectionStage::run(const StageContext& c, const CorrectedFiles& out) const {
  on_root(c.comm, [&] {
    const fs::path data = trained.model / "gpuhpc";
    ClassifierSettings settings = read_settings(trained.model);
    const Taxonomy classes = load_taxonomy(trained.model);
    const GivenLabels given = read_given_labels(labels.path, classes);
    const TokenDataset corpus(encoding.tokens);
    const std::vector<std::int64_t> rows = rows_of_labels(given, corpus, labels.path);
    Matrix truth(std::ssize(rows), classes.size());
    double count = 0;
    std::vector<std::int64_t> hashes;
    for (std::int64_t i = 0; i < truth.rows; ++i) {
      const auto place = static_cast<std::size_t>(i);
      for (const ClassId label : given.classes[place])
        truth.row(i)[static_cast<std::size_t>(label)] = 1;
      count += static_cast<double>(given.classes[place].size());
      hashes.push_back(text_hash(corpus.text(rows[place])));
    }
    const Matrix marginals = marginals_of(trained.model, rows, classes),
                 documents = rows_of_file(data / "centred.h5", rows);
    settings.expected_leaves = leaves.value;
    if (leaves.value == 0) {
      const Matrix corpus_rows = rows_of_file(data / "centred.h5", spread_rows(corpus.size()));
      settings.expected_leaves =
          leaves_for(marginals.view(), std::as_const(truth).view(),
                     shares_of_nearest(corpus_rows.view(), documents.view()));
    }
    const Matrix memberships = memberships_of(classes, marginals.view(), settings.expected_leaves);
    const FittedCorrection fitted = fit_correction(
        documents, memberships.view(), std::as_const(truth).view(), settings.expected_leaves);
    c.log->info(
        "{} labelled documents, {:.1f} classes each, {:.2f} leaves expected{}; error of each by "
        "what the others teach: {:.4f}, before {:.4f}{}",
        truth.rows, count / static_cast<double>(truth.rows), settings.expected_leaves,
        leaves.value > 0 ? " as given" : "", fitted.after, fitted.before,
        fitted.after < fitted.before ? "" : ": nothing is corrected");
    if (given.unfilled > 0)
      c.log->warn("{}: {} rows without classes are left out", labels.path.string(), given.unfilled);
    settings.corrected = true;
    const std::string file = "gpuhpc/correction.h5";
    create_folder(out.model / "gpuhpc");
    write_arrays(out.model / file, {{"documents", documents.view()},
                                    {"weights", fitted.correction.weights.view()},
                                    {"truth", std::as_const(truth).view()},
                                    {"hashes", std::span<const std::int64_t>(hashes)}});
    publish_model(trained.model, out.model, settings, {&file, 1});
  });
}

std::optional<CorrectedFiles> correct_by_labels(Pipeline& pipeline, const LabelsFile& labels,
                                                const TrainedFiles& trained,
                                                const EncodingFiles& encoding,
                                                ExpectedLeavesOption leaves, bool over_paths) {
  if (labels.path.empty()) return std::nullopt;
  if (!over_paths)
    throw usage_error(
        "--input.labels {}: this method's scores are no posterior over the taxonomy's paths, which "
        "labels could correct; take the preset `recommended` or `fixed`",
        labels.path.string());
  return pipeline.add("correction", CorrectionStage{trained, encoding, labels, leaves});
}

}  // namespace gpuhpc
