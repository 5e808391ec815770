#pragma once
// What a finished model/ folder makes of its encoders' vectors: what the inference phase and
// `gpuhpc predict` share.
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

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
  virtual std::int64_t width() const = 0;  // of the vectors it takes
  // Scores of this rank's texts, of which `vectors` has the unit rows (texts, width) by each
  // encoder of the model (ModelEncoders). None are needed of the texts that a transductive model
  // was made of. Collective.
  virtual ClassScores score(std::span<const std::string> texts, std::vector<Matrix> vectors,
                            Communicator& comm) const = 0;

 protected:
  explicit Classifier(Taxonomy taxonomy) : taxonomy_(std::move(taxonomy)) {}

 private:
  Taxonomy taxonomy_;
};

struct ClassifierSettings;
// Collective. `settings`: of open_model(), which has checked the files. input_error when they do
// not fit each other.
std::unique_ptr<Classifier> load_classifier(const std::filesystem::path& model,
                                            const ClassifierSettings& settings, int threads,
                                            Communicator& comm);

// The kinds behind load_classifier.
std::unique_ptr<Classifier> load_path_classifier(const std::filesystem::path& model,
                                                 Taxonomy taxonomy,
                                                 const ClassifierSettings& settings, int threads);
std::unique_ptr<Classifier> load_bilinear_classifier(const std::filesystem::path& model,
                                                     Taxonomy taxonomy,
                                                     const ClassifierSettings& settings);

}  // namespace gpuhpc
