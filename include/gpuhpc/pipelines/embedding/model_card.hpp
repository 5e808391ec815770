#pragma once
// Stage 4 of train-embedding: the model's folder with its README.md, sealed by a manifest.
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/pipelines/embedding/files.hpp"
#include "gpuhpc/pipelines/embedding/options.hpp"
#include "gpuhpc/pipelines/embedding/task.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/model_card.hpp"

namespace gpuhpc {

struct CardFacts {
  std::string start;  // name of the encoder's folder
  std::int64_t dimensions = 0, max_tokens = 0;
  std::vector<std::vector<std::string>> data;    // with their header: role, name, rows, columns
  std::vector<std::vector<std::string>> scores;  // with their header; none: nothing was measured
  std::vector<std::string> settings;             // "section.key = value"
};
ModelCard model_card(const CardFacts& facts);

struct CardFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path model = output("model");
};

// The files of rows: what for, name without folder, columns, and where their shards are.
struct DataNames {
  DataNames(const std::vector<PairDataset>& datasets, const PairFileOptions& common,
            const PairTokenFiles& tokens);
  struct One {
    std::string role, name, columns;
    std::filesystem::path shards;
  };
  std::vector<One> files;
  std::vector<std::string> settings() const;
};

struct ModelCardStage {
  using Outputs = CardFiles;
  DataNames names;
  PairTokenFiles tokens;
  EncoderFiles encoder;
  TrainedFiles trained;
  EvaluationFiles evaluation;
  LearntSets learnt;
  FineTuning training;
  void run(const StageContext& context, const CardFiles& out) const;
};

}  // namespace gpuhpc
