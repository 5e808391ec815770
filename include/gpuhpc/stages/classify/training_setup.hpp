#pragma once
// What the student and the bilinear model share when they are trained: parameter groups, the encoder's forward options, the Trainer.
#include <cstdint>
#include <vector>

#include "gpuhpc/nn/encoder.hpp"
#include "gpuhpc/stages/classify/options.hpp"
#include "gpuhpc/stages/stage.hpp"
#include "gpuhpc/train/parameters.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {

// The encoder's top layers and the head, each with its own rate, biases and LayerNorm weights without decay.
std::vector<ParameterGroup> encoder_and_head(Encoder& encoder, std::int64_t layers, const std::vector<ParameterSlot>& head, const TrainOptions& options);

// How the encoder computes one micro-batch; `seed` is the one that the Trainer gives to the loss. Without gradients nothing is dropped.
ForwardOptions training_forward(const Encoder& encoder, const TrainOptions& options, std::uint64_t seed);

// Trains, with a line a step and a validation in the stage's metrics.jsonl, one a rank in ranks.jsonl; the run folder gets events/ and,
// where --profile.steps asks for it, trace/. `before_step`: as in TrainHooks. Collective.
TrainSummary run_training(const StageContext& c, const ClassifyOptions& o, ParameterArena& arena, const BatchSource& source, Loss loss,
                          std::function<bool(Trainer&, std::int64_t)> before_step = {});

}  // namespace gpuhpc
