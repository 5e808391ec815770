#include "gpuhpc/pipelines/label/classifier.hpp"

#include <optional>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"

namespace gpuhpc {
namespace {

struct Head {
  Matrix classes;  // (C,H); TELEClass: c^T W, the interaction is folded into the class vectors
  std::vector<float> bias, common;  // (C), (H): TaxoClass's
  Link link = Link::sigmoid;
  std::optional<PathModel> leaves;  // TaxoClass's with the link sigmoid
};

class BilinearPredictor final : public Classifier {
 public:
  BilinearPredictor(Taxonomy taxonomy, Head head)
      : Classifier(std::move(taxonomy)), head_(std::move(head)) {}

  std::int64_t width() const override { return head_.classes.columns; }
  ClassScores score(std::span<const std::string> /*texts*/, std::vector<Matrix> vectors,
                    Communicator& /*comm*/) const override {
    const MutableMatrixView rows = vectors.front().view();
    if (!head_.common.empty()) centre_rows(rows, head_.common);
    ClassScores scores;
    scores.marginals = Matrix(rows.rows, head_.classes.rows);
    if (head_.leaves) {
      scores.posterior = Matrix(rows.rows, head_.leaves->vectors.rows);
      head_.leaves->posterior(rows, scores.posterior.view());
      path_marginals(taxonomy(), std::as_const(scores.posterior).view(), scores.marginals.view());
      return scores;
    }
    class_probabilities(rows, head_.classes.view(), head_.bias, scores.marginals.view(),
                        head_.link);
    return scores;
  }

 private:
  Head head_;
};

// (C,H) rows c^T W.
Matrix fold(MatrixView classes, MatrixView interaction) {
  Matrix folded(classes.rows, interaction.columns);
  for (std::int64_t c = 0; c < classes.rows; ++c)
    for (std::int64_t i = 0; i < interaction.rows; ++i)
      for (std::int64_t j = 0; j < interaction.columns; ++j)
        folded.row(c)[static_cast<std::size_t>(j)] +=
            classes.row(c)[static_cast<std::size_t>(i)] *
            interaction.row(i)[static_cast<std::size_t>(j)];
  return folded;
}

}  // namespace

std::unique_ptr<Classifier> load_classifier(const std::filesystem::path& model,
                                            const ClassifierSettings& settings, int threads,
                                            Communicator& comm) {
  std::unique_ptr<Classifier> classifier;
  run_collectively(comm, [&] {
    Taxonomy taxonomy = load_taxonomy(model);
    classifier = settings.kind == "paths"
                     ? load_path_classifier(model, std::move(taxonomy), settings, threads)
                     : load_bilinear_classifier(model, std::move(taxonomy), settings);
  });
  return classifier;
}

std::unique_ptr<Classifier> load_bilinear_classifier(const std::filesystem::path& model,
                                                     Taxonomy taxonomy,
                                                     const ClassifierSettings& settings) {
  Head head;
  const Hdf5File file(model / "gpuhpc" / "head.h5");
  const std::int64_t width = file.matrix("class_embeddings").columns;
  file.expect("class_embeddings", {taxonomy.size(), width});
  if (settings.classes) {
    file.expect("bias", {taxonomy.size()});
    file.expect("common_part", {width});
    const auto bias = file.dataset<float>("bias"), common = file.dataset<float>("common_part");
    head = {read_matrix(model / "gpuhpc" / "head.h5", "class_embeddings"),
            {bias.begin(), bias.end()},
            {common.begin(), common.end()},
            settings.sigmoid_exp ? Link::sigmoid_exp : Link::sigmoid,
            {}};
    if (head.link == Link::sigmoid)
      head.leaves = leaf_odds(taxonomy, head.classes.view(), head.bias);
  } else {
    file.expect("interaction", {width, width});
    head.classes = fold(file.matrix("class_embeddings"), file.matrix("interaction"));
  }
  return std::make_unique<BilinearPredictor>(std::move(taxonomy), std::move(head));
}

}  // namespace gpuhpc
