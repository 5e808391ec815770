#pragma once
// Pairs that the unlabelled corpus itself gives: a text's first sentence and the rest of it, and
// texts that are near to each other by their words and by the encoder's vectors. The encoder learns
// to find one by the other before it labels.
#include <optional>

#include "gpuhpc/pipelines/embedding/files.hpp"
#include "gpuhpc/pipelines/embedding/task.hpp"
#include "gpuhpc/pipelines/label/class_encoding.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"

namespace gpuhpc {

struct CorpusPairFiles : PairTokenFiles {
  using PairTokenFiles::PairTokenFiles;
  std::filesystem::path pairs = output("pairs.jsonl");  // {"anchor", "positive"}
};

// Rows of `anchor` and `positive` with the prompt that the encoder puts before documents, learnt by
// in-batch negatives.
LearntSets corpus_pairs(const ModelFiles& encoder, const PromptOption& prompt);

// What finds a text's neighbours.
struct NeighbourPairing {
  EncodingFiles encoding;  // by the encoder as it is
  TfidfOptions tfidf;
  NeighbourOptions neighbours;
};

// Texts that give no pair are left out, which is said; input_error where fewer than two pairs are
// found, but for `auto`, which then tokenizes none. Of neighbours each text is paired with the
// nearest of its five by TF-IDF that is among its five by vectors.
struct CorpusPairsStage {
  using Outputs = CorpusPairFiles;
  ScannedCorpus corpus;
  AdaptationKindOption kind;  // auto, sentences, neighbours, both
  AdaptationTextsOption texts;
  std::optional<NeighbourPairing> neighbours;  // where kind asks for them
  PairFileOptions columns;                     // of corpus_pairs()
  ModelFiles encoder;
  ShardOptions shards;
  void run(const StageContext& context, const CorpusPairFiles& out) const;
};

struct AdaptationChoiceFiles : EncoderChoiceFiles {
  using EncoderChoiceFiles::EncoderChoiceFiles;
  // {"text", "path"}: texts that hold the whole name of one leaf, of a large corpus a sample
  std::filesystem::path named = output("named_texts.jsonl");
};

// How high the encoder ranks the class of those texts (mean reciprocal rank), as it was and
// adapted: where the second is lower, `auto` goes back to the first, as where nothing was learnt.
struct AdaptationChoiceStage {
  using Outputs = AdaptationChoiceFiles;
  AdaptationKindOption kind;
  ClassEncoding classes;
  ScannedCorpus corpus;
  EncoderFiles as_it_is;
  TrainedFiles adapted;
  InferOptions infer;
  void run(const StageContext& context, const AdaptationChoiceFiles& out) const;
};

}  // namespace gpuhpc
