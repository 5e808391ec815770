#pragma once
// Where a training run stands, beside weights and moments: with them it is all that a checkpoint
// must hold. Shuffles and dropout are functions of (seed, epoch) and (seed, step, micro-batch):
// there is no generator state.
#include <cstdint>
#include <limits>
#include <vector>

namespace gpuhpc {

struct TrainerState {
  std::int64_t step = 0;   // global steps made, skipped ones too
  std::int64_t epoch = 0;  // that the next batch is taken from
  std::int64_t next_batch =
      0;  // its number in that epoch; the number of batches: the epoch is over
  std::int64_t skipped_in_a_row = 0;  // steps whose gradients were not finite
  std::int64_t micro_batch =
      0;  // documents computed at once, after out-of-memory or trial; 0: one micro-batch a rank
  double loss_scale = 1;                                          // of the dynamic scaler (fp16)
  std::int64_t good_steps = 0;                                    // since the scale last changed
  double best_metric = -std::numeric_limits<double>::infinity();  // largest value of the validator
  std::int64_t best_step = 0;                                     // that had it first; 0: none yet
  std::vector<double> losses;                           // one a step; NaN where it was skipped
  std::vector<double> validation;                       // one an epoch, when there is a validator
  std::int64_t skipped = 0, documents = 0, tokens = 0;  // so far
};

}  // namespace gpuhpc
