#pragma once
// AdamW (Loshchilov & Hutter, ICLR 2019: decoupled weight decay) over the flat buffers of an arena, and the gradient norm.
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "gpuhpc/train/arena.hpp"

namespace gpuhpc {

struct AdamWOptions {
  double beta1 = .9;
  double beta2 = .999;
  double epsilon = 1e-8;
};

class AdamW {
 public:
  // Updates the floats of `slice` only (a rank's share), and holds moments for no more.
  AdamW(ParameterArena& arena, const AdamWOptions& options, Range slice);
  AdamW(ParameterArena& arena, const AdamWOptions& options) : AdamW(arena, options, {0, arena.capacity()}) {}
  // One update with gradients x `gradient_scale` and, in each group, its learning rate x `rate_factor`.
  // The gradients are left scaled.
  void step(double rate_factor, double gradient_scale);
  std::int64_t steps() const { return steps_; }
  at::Tensor& first_moment() { return first_moment_; }    // (slice)
  at::Tensor& second_moment() { return second_moment_; }  // (slice)

 private:
  ParameterArena& arena_;
  AdamWOptions options_;
  Range slice_;
  at::Tensor first_moment_, second_moment_;
  std::int64_t steps_ = 0;
};

// Euclidean norm of the gradients of `slice`, accumulated in double in blocks of fixed size: the same bits whatever the
// number of threads. Not finite when any gradient is not.
double gradient_norm(ParameterArena& arena, Range slice);

// The factor that brings `norm` down to `limit`; 1 when it is below, or when `limit` is 0 (no clipping).
double clip_factor(double norm, double limit);

}  // namespace gpuhpc
