#pragma once
#include <cstdint>
#include <optional>

#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"

namespace gpuhpc {

// The trained model, corrected by documents that a person labelled: a folder of its own.
struct CorrectionStage {
  using Outputs = CorrectedFiles;
  static constexpr std::int64_t format = 4;  // what moves scores depends on them
  TrainedFiles trained;
  EncodingFiles encoding;
  LabelsFile labels;
  DecodeOptions decode;  // leaves 0: as many as the labelled documents have
  void run(const StageContext& context, const CorrectedFiles& out) const;
};

// Adds the stage where labels are given. usage_error for a model whose scores are no posterior over
// paths.
std::optional<CorrectedFiles> correct_by_labels(Pipeline& pipeline, const LabelsFile& labels,
                                                const TrainedFiles& trained,
                                                const EncodingFiles& encoding,
                                                const DecodeOptions& decode, bool over_paths);

}  // namespace gpuhpc
