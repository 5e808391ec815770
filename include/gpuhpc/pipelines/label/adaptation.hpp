#pragma once
// Pairs that the unlabelled corpus itself gives: a text's first sentence, and the rest of it. The
// encoder learns from them to find a text by its beginning before it labels.
#include "gpuhpc/pipelines/embedding/files.hpp"
#include "gpuhpc/pipelines/embedding/task.hpp"
#include "gpuhpc/pipelines/label/files.hpp"

namespace gpuhpc {

struct SentencePairFiles : PairTokenFiles {
  using PairTokenFiles::PairTokenFiles;
  std::filesystem::path pairs = output("pairs.jsonl");  // {"anchor", "positive"}
};

// Rows of `anchor` and `positive` with the prompt that the encoder puts before documents, learnt by
// in-batch negatives.
LearntSets sentence_pairs(const ModelFiles& encoder, const PromptOption& prompt);

// Texts of one sentence are left out, which is said; input_error where fewer than two are left.
struct SentencePairsStage {
  using Outputs = SentencePairFiles;
  ScannedCorpus corpus;
  PairFileOptions columns;  // of sentence_pairs()
  ModelFiles encoder;
  ShardOptions shards;
  void run(const StageContext& context, const SentencePairFiles& out) const;
};

}  // namespace gpuhpc
