// TELEClass's classifier on new text: sigmoid(c^T W d) for every class.
#include <cmath>

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/stages/classify/classifier.hpp"
#include "gpuhpc/stages/classify/model_folder.hpp"
#include "gpuhpc/stages/classify/text_encoder.hpp"

namespace gpuhpc {
namespace {

class BilinearPredictor final : public Classifier {
 public:
  BilinearPredictor(Taxonomy taxonomy, Matrix classes, std::unique_ptr<TextEncoder> encoder)
      : Classifier(std::move(taxonomy)), classes_(std::move(classes)), encoder_(std::move(encoder)) {}

  ClassScores score(std::span<const std::string> texts, Communicator& comm) const override {
    const Matrix documents = encoder_->encode(texts, comm);
    ClassScores scores;
    scores.marginals = Matrix(documents.rows, classes_.rows);
    multiply_transposed(documents.view(), classes_.view(), scores.marginals.view());
    for (float& value : scores.marginals.values) value = 1 / (1 + std::exp(-value));
    return scores;
  }

 private:
  Matrix classes_;  // (C,H) c^T W: the interaction is folded into the class vectors
  std::unique_ptr<TextEncoder> encoder_;
};

// (C,H) rows c^T W.
Matrix fold(MatrixView classes, MatrixView interaction) {
  Matrix folded(classes.rows, interaction.columns);
  for (std::int64_t c = 0; c < classes.rows; ++c)
    for (std::int64_t i = 0; i < interaction.rows; ++i)
      for (std::int64_t j = 0; j < interaction.columns; ++j)
        folded.row(c)[static_cast<std::size_t>(j)] += classes.row(c)[static_cast<std::size_t>(i)] * interaction.row(i)[static_cast<std::size_t>(j)];
  return folded;
}

}  // namespace

std::unique_ptr<Classifier> load_bilinear_classifier(const std::filesystem::path& model, Taxonomy taxonomy, const ClassifierSettings&, const InferOptions& infer,
                                                     const DeviceChoice& device, Communicator& comm, Log log) {
  Matrix classes;
  together(comm, [&] {
    const Hdf5File head(model / "gpuhpc" / "head.h5");
    classes = fold(head.matrix("class_embeddings"), head.matrix("interaction"));
  });
  return std::make_unique<BilinearPredictor>(std::move(taxonomy), std::move(classes), std::make_unique<TextEncoder>(model, infer, device, comm, std::move(log)));
}

}  // namespace gpuhpc
