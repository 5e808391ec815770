#pragma once
// Stages 2 and 3 of mine: vectors of the texts that differ, then hard negatives for rows of anchor
// and positive, found among the positives of all rows.
#include <filesystem>
#include <string>
#include <vector>

#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/pipelines/embedding/files.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/stage.hpp"
#include "gpuhpc/retrieval/negatives.hpp"

namespace gpuhpc {

struct MiningVectorFiles : StageFiles {
  using StageFiles::StageFiles;
  // "values" (distinct texts, width), unit rows
  std::filesystem::path anchors = output("anchors.h5"), texts = output("texts.h5");
};
struct MiningVectorsStage {
  using Outputs = MiningVectorFiles;
  PairTokenFiles tokens;
  EncoderFiles encoder;
  InferOptions infer;
  void run(const StageContext& context, const MiningVectorFiles& out) const;
};

struct MinedFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path rows = output("mined.jsonl");  // that train-embedding reads
  std::filesystem::path metrics = output("metrics.json");
};
struct MinedColumns {
  std::string anchor, positive;      // their names
  std::vector<std::string> prompts;  // before their texts, or none
  std::vector<std::string> settings() const;
};
struct MiningStage {
  using Outputs = MinedFiles;
  PairTokenFiles tokens;
  MiningVectorFiles vectors;
  MinedColumns columns;
  NegativeOptions options;
  ModelFiles cross_encoder;  // no path: none
  InferOptions infer;
  void check() const;
  void run(const StageContext& context, const MinedFiles& out) const;
};

}  // namespace gpuhpc
