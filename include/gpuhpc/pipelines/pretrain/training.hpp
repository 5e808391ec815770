#pragma once
// Stages of `pretrain`: a masked-language model learns from the texts, and what it has learnt.
#include <filesystem>
#include <string>
#include <vector>

#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/pretrain/texts.hpp"

namespace gpuhpc {

struct PretrainTrainingStage {
  using Outputs = TrainedFiles;
  static constexpr bool exports = true;
  Pretraining pretraining;
  void run(const StageContext& context, const TrainedFiles& out) const;
};

struct PerplexityFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path metrics = output("metrics.json");
  std::filesystem::path samples = output("samples.json");
  std::filesystem::path model = output("model");  // with its card
};
// What a card says of the corpora.
struct DataFacts {
  std::vector<std::vector<std::string>> rows;  // name, texts
  std::vector<std::string> settings() const;
};
// exp of the mean loss of a masked token in the texts that were held out, before and after; and
// what the trained model would put into ten of their masked places.
struct PerplexityStage {
  using Outputs = PerplexityFiles;
  Pretraining pretraining;
  TrainedFiles trained;
  DataFacts data;
  void run(const StageContext& context, const PerplexityFiles& out) const;
};

}  // namespace gpuhpc
