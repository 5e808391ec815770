#pragma once
// Stage 1 of train-embedding: each column of each file to token shards, row by row aligned.
#include "gpuhpc/pipelines/embedding/files.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"

namespace gpuhpc {

struct PairTokensStage {
  using Outputs = PairTokenFiles;
  ScannedSets learnt;
  ScannedRows test;
  ModelFiles encoder;
  ShardOptions shards;
  void run(const StageContext& context, const PairTokenFiles& out) const;
};

}  // namespace gpuhpc
