#pragma once
// What both classification methods share: their sections, and the struct that every stage of theirs
// is handed.
#include <cstdint>
#include <string>

#include "gpuhpc/comm/options.hpp"
#include "gpuhpc/config/options.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/layout.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/labels/decode_options.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"
#include "gpuhpc/retrieval/tfidf.hpp"
#include "gpuhpc/train/options.hpp"
#include "gpuhpc/train/profile.hpp"

namespace gpuhpc {

// [input]
struct InputOptions {
  std::string dir = "data/debtags-topical";
  CorpusOptions corpus;
};
void declare(config::Section& section, InputOptions& options);

// [model]
struct ModelOptions {
  std::string encoder = ".deps/models/all-MiniLM-L6-v2";
};
void declare(config::Section& section, ModelOptions& options);

// [scoring]: how documents are held against classes (quality recipe, steps 1 to 8).
struct ScoringOptions {
  std::string class_texts = "five";  // five: name, path and sentence templates; name: the name
                                     // alone; keywords: the multi-GPU description
  bool descriptions = true;
  double centring = .5;     // share of the mean that is taken off documents and classes
  double temperature = 20;  // of cosines
  double csls = .25;        // share of the hubness mean r that is taken off scores
  double lexical = 1;       // weight of class-name words found in the document
  double name_votes = 3;  // weight of the class vector against its documents; 0: no soft refinement
  std::int64_t smoothing_rounds = 3;  // 0: no neighbour smoothing
};
void declare(config::Section& section, ScoringOptions& options);

// [train], beside the Trainer's own: how the encoder learns. Defaults are those of the student
// (quality-recipe.md, step 11).
struct FineTuneOptions {
  double encoder_rate = 3e-5, head_rate = 1e-3;
  std::int64_t max_length = 96;  // tokens a document
  std::int64_t layers =
      3;               // top encoder layers that learn; 0: the head alone; -1: all, embeddings too
  double dropout = 0;  // in the encoder
};
void declare(config::Section& section, FineTuneOptions& options);

struct ClassifyOptions {
  InputOptions input;
  ModelOptions model;
  ShardOptions shards;
  InferOptions infer;
  ScoringOptions scoring;
  TfidfOptions tfidf;
  NeighbourOptions neighbours;
  FineTuneOptions fine_tune;
  TrainOptions train;
  ProfileOptions profile;
  ParallelOptions parallel;
  DecodeOptions decode;
  SubmissionOptions submission;
};

}  // namespace gpuhpc
