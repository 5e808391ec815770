#pragma once
// How a global batch is computed: decisions without hardware.
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/train/task.hpp"

namespace gpuhpc {

// The largest size of 1 .. limit that `fits`, within an eighth: doubled until one does not fit,
// then halved in between. 0: not even 1.
std::int64_t largest_fitting(std::int64_t limit, const std::function<bool(std::int64_t)>& fits);

// Did the allocator of host or device memory, or the program's own check, refuse?
bool is_out_of_memory(const std::exception_ptr& error);

// How a global batch of `documents` is computed: what the run's one line says.
struct BatchShape {
  std::int64_t ranks = 1, micro_batch = 1,
               accumulation = 1;  // documents at once, micro-batches a rank; both at most
};
BatchShape batch_shape(std::int64_t documents, std::int64_t micro_batch,
                       int ranks);  // micro_batch 0: one micro-batch a rank

// The micro-batches of one global batch, at most `micro_batch` items each, of about equal cost: cut
// from the batch alone, so that each gives the same gradient whoever computes it. Only when they
// would be fewer than `ranks` (or when `micro_batch` is 0) are there as many as ranks.
std::int64_t piece_count(std::int64_t items, std::int64_t micro_batch, int ranks);
std::vector<std::vector<std::int64_t>> cut_micro_batches(const Task& task,
                                                         std::span<const std::int64_t> batch,
                                                         std::int64_t micro_batch, int ranks);

// The seed of dropout in one micro-batch: of the run's seed, the global step and the micro-batch's
// number in the global batch. It does not know who computes it, and nothing of a generator has to
// be saved.
std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch);

// Is `micro_batch` the last of its quarter of the global batch's `count` micro-batches? Quarters
// are the leaves of the reproducible sum's tree (gradient_sync.hpp): within one, gradients are
// added up in place; so long sums cost no more copies than short ones.
bool ends_quarter(std::int64_t micro_batch, std::int64_t count);
// The micro-batches that `rank` computes: with 1, 2 or 4 ranks whole quarters.
Range micro_batches_of_rank(std::int64_t count, int rank, int ranks);

}  // namespace gpuhpc
