#pragma once
// Decisions about how many documents are computed at once, without hardware.
#include <cstdint>
#include <exception>
#include <functional>

#include "gpuhpc/base/block.hpp"

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

// Is `micro_batch` the last of its quarter of the global batch's `count` micro-batches? Quarters
// are the leaves of the reproducible sum's tree (gradient_sync.hpp): within one, gradients are
// added up in place; so long sums cost no more copies than short ones.
bool ends_quarter(std::int64_t micro_batch, std::int64_t count);
// The micro-batches that `rank` computes: with 1, 2 or 4 ranks whole quarters.
Range micro_batches_of_rank(std::int64_t count, int rank, int ranks);

}  // namespace gpuhpc
