#pragma once
// Element-wise reductions in host memory, for communicators that add up themselves.
#include <cstdint>
#include <span>

#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

// into[i] = rows[0][i] op rows[1][i] op ..., in this order (tree_sum: in that of its tree). 16-bit
// floats are computed in float32 and rounded once. `into` may be one of the rows.
void reduce_rows(std::span<const void* const> rows, void* into, std::int64_t count, DataType type,
                 Reduce reduce);

}  // namespace gpuhpc
