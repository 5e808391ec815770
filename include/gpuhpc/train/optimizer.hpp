#pragma once
// Optimizers over the flat buffers of an arena, and the gradient norm. Each updates the floats of
// some ranges only: all of them, or this rank's share. Its moments are flat over those ranges, one
// behind the other.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/options.hpp"

namespace gpuhpc {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update with gradients x `gradient_scale` and, in each group, its learning rate x
  // `learning_rate_multiplier`. The gradients of the ranges are used up: what they hold afterwards
  // is the optimizer's business.
  virtual void step(double learning_rate_multiplier, double gradient_scale) = 0;

  const std::vector<Range>& ranges() const {
    return ranges_;
  }  // floats of the arena, ascending, apart from each other
  at::Tensor& first_moment() { return first_moment_; }    // (sum of the ranges' sizes) fp32
  at::Tensor& second_moment() { return second_moment_; }  // likewise
  std::int64_t steps() const { return steps_; }  // updates made: what bias correction counts
  void set_steps(std::int64_t steps) { steps_ = steps; }  // of a checkpoint

 protected:
  Optimizer(ParameterArena& arena, const OptimizerOptions& options, std::vector<Range> ranges);
  // A piece of one group in one range: arena floats [first, first + size), moments from `offset`.
  struct Piece {
    const ParameterArena::Group* group;
    std::int64_t first, size, offset;
  };
  std::vector<Piece> pieces() const;

  ParameterArena& arena_;
  OptimizerOptions options_;
  std::vector<Range> ranges_;
  at::Tensor first_moment_, second_moment_;
  std::int64_t steps_ = 0;
};

// Decoupled weight decay (Loshchilov & Hutter, ICLR 2019).
class AdamW final : public Optimizer {
 public:
  AdamW(ParameterArena& arena, const OptimizerOptions& options, std::vector<Range> ranges)
      : Optimizer(arena, options, std::move(ranges)) {}
  AdamW(ParameterArena& arena, const OptimizerOptions& options, Range slice)
      : AdamW(arena, options, std::vector<Range>{slice}) {}
  AdamW(ParameterArena& arena, const OptimizerOptions& options)
      : AdamW(arena, options, Range{0, arena.capacity()}) {}
  void step(double learning_rate_multiplier, double gradient_scale) override;
};

// Layer-wise rates for large batches (You et al., ICLR 2020, algorithm 2, with bias correction):
// Adam's direction plus weight decay, scaled in each tensor by |weights| / |direction| (1 where
// either is zero). Tensors of fewer than two dimensions (biases, LayerNorm) keep the plain rate, as
// in BERT's reference runs.
class Lamb final : public Optimizer {
 public:
  // `sum_over_ranks` adds up the norms of tensors whose pieces lie on several ranks; empty: the
  // ranges are the whole arena.
  using Sum = std::function<void(std::span<double>)>;
  Lamb(ParameterArena& arena, const OptimizerOptions& options, std::vector<Range> ranges,
       Sum sum_over_ranks = {});
  void step(double learning_rate_multiplier, double gradient_scale) override;

 private:
  // A piece of one tensor in one range.
  struct Part {
    std::size_t entry;
    std::int64_t first, size;
  };
  std::vector<Part> parts_;
  Sum sum_over_ranks_;
};

// `kind`: "adamw" | "lamb" | "adafactor".
std::unique_ptr<Optimizer> make_optimizer(const std::string& kind, ParameterArena& arena,
                                          const OptimizerOptions& options,
                                          std::vector<Range> ranges, Lamb::Sum sum_over_ranks = {});

// Sum of the squares of a flat fp32 tensor, in double. On a processor in blocks of fixed size: the
// same bits whatever the number of threads. Not finite when any value is not.
double square_sum(const at::Tensor& values);
// Of each of these, all on one device; a GPU is waited for once.
std::vector<double> square_sums(const std::vector<at::Tensor>& slices);

// Euclidean norm of the gradients of `slice`.
double gradient_norm(ParameterArena& arena, Range slice);

// The factor that brings `norm` down to `limit`; 1 when it is below, or when `limit` is 0 (no
// clipping).
double clip_factor(double norm, double limit);

}  // namespace gpuhpc
