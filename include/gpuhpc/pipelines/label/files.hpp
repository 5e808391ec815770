#pragma once
// What the labelling job reads from outside, and what its stages leave for each other.
#include <filesystem>

#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

struct TaxonomyFiles {
  std::filesystem::path labels, hierarchy;
  Paths files() const { return {labels, hierarchy}; }
  Taxonomy load() const { return Taxonomy::load(labels, hierarchy); }
};
struct ClassFiles {  // what the input says about its classes beside their names
  std::filesystem::path descriptions, keywords, generated_docs, generated_labels;
  Paths files() const { return {descriptions, keywords, generated_docs, generated_labels}; }
};
struct LabelsFile {  // what a person labelled (--input.labels), or empty
  std::filesystem::path path;
  Paths files() const { return {path}; }
};
struct ScannedCorpus {
  CorpusScan scan;
  bool is_test = false;  // the test texts serve as the training corpus
  std::vector<std::string> settings() const;
};
struct EncodingFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path tokens = output("tokens");           // shards of the corpus
  std::filesystem::path documents = output("documents.h5");  // (N,H) unit rows
  std::filesystem::path centred = output("centred.h5");      // x' (N,H)
  std::filesystem::path classes =
      output("classes.h5");  // "vectors", "centred" (C,H), "common_part" (H)
  std::filesystem::path class_texts = output("class_texts.txt");
  std::filesystem::path llm_prompts = output("llm_prompts.jsonl");
};

struct RefinedFiles : StageFiles {  // of any refinement
  using StageFiles::StageFiles;
  std::filesystem::path refined = output("refined_core_classes.json");
};
struct PosteriorFiles : RefinedFiles {
  using RefinedFiles::RefinedFiles;
  // "vectors" (K,H), "hubness" (K), "csls" (1): the fitted share, "idf" (T)
  std::filesystem::path paths = output("paths.h5");
  std::filesystem::path first = output("first_posterior.h5");  // "values" (N,K) P1
  std::filesystem::path posterior = output("posterior.h5");    // "values" (N,K) F
  std::filesystem::path neighbours = output("neighbours.h5");  // sparse A (N,N)
  std::filesystem::path tfidf = output("tfidf.h5");            // terms and idf
  std::filesystem::path tfidf_rows = output("tfidf_rows.h5");  // sparse (N,terms)
};
struct PublishedRefinementFiles : RefinedFiles {
  using RefinedFiles::RefinedFiles;
  std::filesystem::path class_vectors = output("class_vectors.h5");
  std::filesystem::path initial = output("init_core_classes.json");
  std::filesystem::path enrichment = output("enrichment.txt");
};

struct AugmentationFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path documents = output("generated_docs.txt");
  std::filesystem::path labels = output("generated_doc2label.json");
};
struct TargetFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path targets = output("targets.h5");  // "values" (N,K)
  std::filesystem::path per_class = output("documents_per_class.tsv");
};
struct LabelFiles : StageFiles {  // what a head over classes learns
  using StageFiles::StageFiles;
  std::filesystem::path labels = output("labels.jsonl");
  std::filesystem::path per_class = output("documents_per_class.tsv");
};

struct SimilarityFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path similarity = output("similarity.h5");  // "values" (N,C), -1: not asked for
};
struct CoreFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path cores = output("core_classes.json");
  std::filesystem::path labels = output("labels.jsonl");
  std::filesystem::path per_class = output("cores_per_class.tsv");
};
struct GraphModelFiles : TrainedFiles {
  using TrainedFiles::TrainedFiles;
  std::filesystem::path graph = output("graph.h5");  // the head's parameters by name
};
struct SelfTrainingFiles : GraphModelFiles {
  using GraphModelFiles::GraphModelFiles;
  std::filesystem::path table = output("self_training.tsv");
};

struct CorrectedFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path model = output("model");
  std::filesystem::path samples = output("samples.json");  // what the labels changed
};

struct TestEncodingFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path tokens = output("tokens");    // shards of the test texts; empty when they
                                                      // are the training corpus
  std::filesystem::path vectors = output("vectors");  // KeptVectors; empty for a transductive model
};
struct PredictionFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path predictions = output("predictions.jsonl");
  std::filesystem::path submission = output("submission.csv");
  std::filesystem::path model = output("model");  // the trained one, and how it labelled
};

}  // namespace gpuhpc
