#pragma once
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/train/schedule.hpp"

namespace gpuhpc {

enum class Precision { fp32, bf16 };

// Section [train]. Defaults are those of the student (quality-recipe.md, step 11).
struct TrainOptions {
  double encoder_rate = 3e-5;
  double head_rate = 1e-3;
  std::int64_t epochs = 1;
  std::int64_t batch = 32;  // documents an update, over all ranks
  // Documents a forward and backward: cut from the batch alone, so that each micro-batch gives the same gradient whoever
  // computes it. 0: one a rank (faster on a GPU; rounding then depends on the number of ranks).
  std::int64_t micro_batch = 8;
  double weight_decay = .01;
  double warmup = .1;            // below 1: share of all updates; from 1: updates
  std::string decay = "linear";  // linear | cosine | constant
  double clip = 1;               // largest gradient norm; 0: no clipping
  std::int64_t max_length = 96;  // tokens a document
  std::int64_t layers = 3;       // top encoder layers that learn; 0: the head alone; -1: all, embeddings too
  double dropout = 0;            // in the encoder
  bool activation_checkpointing = false;  // keep each layer's input alone, compute the layer again in the backward pass
  std::string precision = "auto";
  std::int64_t seed = 42;
  double beta1 = .9, beta2 = .999, epsilon = 1e-8;
  std::int64_t max_skipped = 20;  // updates skipped in a row (not finite) before the run is given up

  // auto: bf16 on GPUs and on processors that multiply bf16, else fp32.
  Precision precision_kind(bool cuda) const;
  Decay decay_kind() const;
};

void declare(config::Section& section, TrainOptions& options);

}  // namespace gpuhpc
