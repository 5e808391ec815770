#pragma once
// model/: the trained encoder in Hugging Face layout, and in model/gpuhpc/ all else that inference
// needs.
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/labels/correction.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {

// How texts are cut and labels chosen: what the user may give anew for a finished model.
struct Labelling {
  DecodeOptions decode;
  InferOptions infer;
};

// gpuhpc/settings.json.
struct ClassifierSettings {
  std::string kind;  // "paths" (quality recipe, TaxoClass's ensemble) or "bilinear"
  // paths: the encoder in model/ was trained, model/gpuhpc/teacher is what it came from
  bool student = false;
  bool transductive = false;  // the test texts served as the training corpus
  bool classes = false;       // the student, or the bilinear head, is one over classes (TaxoClass)
  bool sigmoid_exp = false;   // bilinear: the link from logits to probabilities
  double smoothing_keep = .5;
  bool corrected = false;  // paths: by labelled documents (gpuhpc/correction.h5)
  double expected_leaves = DecodeOptions::default_leaves;  // where --decode.expected-leaves is 0
  double softmax_leaves = expected_leaves, lift = 0;       // corrected: LabelCorrection's
  PathScoring scoring{};                 // paths: all; bilinear with classes: the centring
  std::optional<Labelling> labelling{};  // of the run; a stage that trains knows none

  // Scores are probabilities of membership as they are: decoding must not raise them by
  // --decode.expected-leaves.
  bool gives_memberships() const {
    return corrected || (kind == "bilinear" && (!classes || sigmoid_exp));
  }
  // The folders of its encoders, the teacher's first.
  std::vector<std::filesystem::path> encoders(const std::filesystem::path& model) const {
    if (kind != "paths") return {model};
    std::vector<std::filesystem::path> folders{model / "gpuhpc" / "teacher"};
    if (student) folders.push_back(model);
    return folders;
  }
  // As the user gave them, with this model's L where none is given.
  DecodeOptions decoding(DecodeOptions given) const {
    if (given.expected_leaves == 0) given.expected_leaves = expected_leaves;
    return given;
  }
  // The same for the scores that the model gives: memberships are decoded as they are.
  DecodeOptions decoding_of_scores(DecodeOptions given) const {
    given = decoding(given);
    if (gives_memberships()) given.expected_leaves = 1;
    return given;
  }
};

// Of scores, after "its scores" or "this method's scores".
constexpr const char* not_correctable =
    "are no posterior over the taxonomy's paths, which labels could correct";

// gpuhpc/correction.h5: how labelled documents correct the scores of others, and what they are.
struct ModelCorrection {
  LabelCorrection scores;
  Matrix truth;                      // (n,C)
  std::vector<std::int64_t> hashes;  // (n) of their texts

  // Marginals (B,C) of texts with the vectors x' `centred` (B,H), this posterior (B,K) and these
  // hashes (B) are corrected; a text that a person labelled has the classes it was given, and is
  // told (B).
  void apply(const Taxonomy& taxonomy, MatrixView centred, MatrixView posterior,
             std::span<const std::int64_t> texts, MutableMatrixView marginals,
             std::span<char> told) const;
};

void write_settings(const std::filesystem::path& model, const ClassifierSettings& settings);
ClassifierSettings read_settings(const std::filesystem::path& model);

// `trained` a second time as `model`, with other settings, and corrected; its other files are
// links.
void publish_model(const std::filesystem::path& trained, const std::filesystem::path& model,
                   const ClassifierSettings& settings, const ModelCorrection* correction = nullptr);
// Settings of a model, all its files checked. input_error for what is no finished model.
// Collective.
ClassifierSettings open_model(const std::filesystem::path& model, Communicator& comm,
                              const Log& log);
// How the model's run labelled, but for what the user gave (`given`), which is said. Throws
// usage_error for an option that can only be another one when a model is made. Collective.
Labelling choose_labelling(const ClassifierSettings& settings, const config::OptionSet& given,
                           Communicator& comm, const Log& log);

// labels.txt and label_hierarchy.txt into model/gpuhpc/, byte for byte; and read from there.
void copy_taxonomy(const TaxonomyFiles& taxonomy, const std::filesystem::path& model);
Taxonomy load_taxonomy(const std::filesystem::path& model);

// Paths, posterior, neighbours' index and the encoder as it was.
void copy_teacher(const EncodingFiles& encoding, const PosteriorFiles& posterior,
                  const LoadedEncoder& teacher, const std::filesystem::path& model);

// Of a corrected model of so many classes and numbers in a row of text_and_posterior; input_error
// for a file of other shapes.
ModelCorrection load_correction(const std::filesystem::path& model,
                                const ClassifierSettings& settings, std::int64_t classes,
                                std::int64_t width);

// By which a text is known again.
std::int64_t text_hash(std::string_view text);
// Hashes of the training texts: where the test texts served as the corpus, a document keeps what
// the corpus gave it.
void write_text_hashes(const TokenDataset& corpus, const std::filesystem::path& path);

}  // namespace gpuhpc
