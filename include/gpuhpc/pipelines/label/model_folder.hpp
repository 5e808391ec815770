#pragma once
// model/: the trained encoder in Hugging Face layout, and in model/gpuhpc/ all else that inference
// needs.
#include <filesystem>
#include <string>

#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"

namespace gpuhpc {

struct ClassifierSettings {
  std::string kind;  // "paths" (quality recipe, TaxoClass's ensemble) or "bilinear"
  bool student =
      false;  // paths: the encoder in model/ was trained, model/gpuhpc/teacher is what it came from
  bool transductive = false;  // the test texts served as the training corpus
  double temperature = 20, csls = .25, lexical = 1, centring = .5;
  double smoothing_keep = .5;
  bool smoothing = true;
  std::int64_t neighbours = 10;
  std::int64_t ngrams = 2;  // of the TF-IDF neighbours
  bool stop_words = true;
  bool classes = false;      // the student, or the bilinear head, is one over classes (TaxoClass)
  bool sigmoid_exp = false;  // bilinear: the link from logits to probabilities
};

// Of kind "paths", without a student.
ClassifierSettings path_settings(const PathScoring& scoring, bool transductive);
void write_settings(const std::filesystem::path& model, const ClassifierSettings& settings);
// input_error when the folder is no finished model of ours.
ClassifierSettings read_settings(const std::filesystem::path& model);

// labels.txt and label_hierarchy.txt into model/gpuhpc/, byte for byte.
void copy_taxonomy(const TaxonomyFiles& taxonomy, const std::filesystem::path& model);

// Paths, posterior, neighbours' index and the encoder as it was.
void copy_teacher(const EncodingFiles& encoding, const PosteriorFiles& posterior,
                  const LoadedEncoder& teacher, const std::filesystem::path& model);

// Hashes of the training texts: where the test texts served as the corpus, a document keeps what
// the corpus gave it.
void write_text_hashes(const TokenDataset& corpus, const std::filesystem::path& path);

}  // namespace gpuhpc
