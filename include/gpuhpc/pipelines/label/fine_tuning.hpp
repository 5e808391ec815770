#pragma once
// What the stages that fine-tune the encoder share.
#include <cstdint>
#include <string>
#include <vector>

#include "gpuhpc/nn/encoder.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {

// A group of its own rate; biases and LayerNorm weights have no decay.
struct RatedParameters {
  std::string name;
  double learning_rate;
  std::vector<ParameterSlot> parameters;
};
std::vector<ParameterGroup> parameter_groups(const std::vector<RatedParameters>& groups,
                                             const TrainOptions& options);

// How the encoder computes one micro-batch; `seed` is the one that the Trainer gives to the loss.
ForwardOptions training_forward(const Encoder& encoder, const FineTuning& options,
                                DropoutSeed seed);

// A stage's surroundings as its Trainer wants them.
TrainContext train_context(const StageContext& context, const TrainingOptions& options,
                           const TrainedFiles& out);

}  // namespace gpuhpc
