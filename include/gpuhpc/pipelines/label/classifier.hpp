#pragma once
// A finished model/ folder at work on new text: what the inference phase and `gpuhpc predict`
// share.
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

struct ClassScores {
  Matrix marginals;  // (B,C) probability of each class
  Matrix posterior;  // (B,K) over root-to-leaf paths, or empty
};

class Classifier {
 public:
  virtual ~Classifier() = default;
  const Taxonomy& taxonomy() const { return taxonomy_; }
  // Marginals are probabilities of membership as they are: decoding must not raise them by
  // --decode.expected-leaves.
  virtual bool gives_memberships() const { return false; }
  // Every rank hands in the same texts and gets all rows. Collective.
  virtual ClassScores score(std::span<const std::string> texts, Communicator& comm) const = 0;

 protected:
  explicit Classifier(Taxonomy taxonomy) : taxonomy_(std::move(taxonomy)) {}

 private:
  Taxonomy taxonomy_;
};

// Collective. input_error when the folder is not a finished model.
std::unique_ptr<Classifier> load_classifier(const std::filesystem::path& model,
                                            const InferOptions& infer, const DeviceChoice& device,
                                            Communicator& comm, Log log);

// The kinds behind load_classifier.
struct ClassifierSettings;
std::unique_ptr<Classifier> load_path_classifier(
    const std::filesystem::path& model, Taxonomy taxonomy, const ClassifierSettings& settings,
    const InferOptions& infer, const DeviceChoice& device, Communicator& comm, Log log);
std::unique_ptr<Classifier> load_bilinear_classifier(
    const std::filesystem::path& model, Taxonomy taxonomy, const ClassifierSettings& settings,
    const InferOptions& infer, const DeviceChoice& device, Communicator& comm, Log log);

}  // namespace gpuhpc
