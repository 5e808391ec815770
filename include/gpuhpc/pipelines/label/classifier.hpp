#pragma once
// A finished model/ folder at work on new text: what the inference phase and `gpuhpc predict`
// share.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/pipelines/document_chunks.hpp"

namespace gpuhpc {

struct ClassScores {
  Matrix marginals;  // (own rows, C) probability of each class
  Matrix posterior;  // (own rows, K) over root-to-leaf paths, or empty
  // (own rows) whether a person labelled the text, whose row is then those classes; or empty
  std::vector<char> told;
};

class Classifier {
 public:
  virtual ~Classifier() = default;
  const Taxonomy& taxonomy() const { return taxonomy_; }
  virtual const Tokenizer& tokenizer() const = 0;  // of the tokens it is handed
  // Scores of this rank's rows. Collective.
  virtual ClassScores score(const DocumentChunk& documents, Communicator& comm) const = 0;

 protected:
  explicit Classifier(Taxonomy taxonomy) : taxonomy_(std::move(taxonomy)) {}

 private:
  Taxonomy taxonomy_;
};

struct ClassifierSettings;
// Collective. `settings`: of open_model(), which has checked the files. input_error when they do
// not fit each other.
std::unique_ptr<Classifier> load_classifier(const std::filesystem::path& model,
                                            const ClassifierSettings& settings,
                                            const InferOptions& infer, const DeviceChoice& device,
                                            Communicator& comm, Log log);

// The kinds behind load_classifier.
std::unique_ptr<Classifier> load_path_classifier(
    const std::filesystem::path& model, Taxonomy taxonomy, const ClassifierSettings& settings,
    const InferOptions& infer, const DeviceChoice& device, Communicator& comm, Log log);
std::unique_ptr<Classifier> load_bilinear_classifier(
    const std::filesystem::path& model, Taxonomy taxonomy, const ClassifierSettings& settings,
    const InferOptions& infer, const DeviceChoice& device, Communicator& comm, Log log);

}  // namespace gpuhpc
