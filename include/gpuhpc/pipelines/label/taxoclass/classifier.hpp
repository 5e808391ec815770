#pragma once
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

#include "gpuhpc/pipelines/label/taxoclass/graph/graph_model.hpp"
namespace gpuhpc {

// Stage 3: encoder and graph head learn the silver labels.
struct GraphClassifierStage {
  using Outputs = GraphModelFiles;
  GraphInputs inputs;
  EncoderFiles encoder;
  FineTuning training;
  void run(const StageContext& context, const GraphModelFiles& out) const;
};

}  // namespace gpuhpc
