#pragma once
// NCCL between the GPUs of the ranks, one GPU a rank. Its logic is tested against a table over host
// memory; it has never run on a GPU yet.
#include <memory>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/comm/nccl_api.hpp"

namespace gpuhpc {

// Collective over `host`, which carries the unique id, tells whom a collective waits for, and must
// outlive the result.
// - Buffers are device memory. Values in host memory (all_reduce_value, together, ...) belong on
// `host`.
// - Collectives run on a stream of their own: they start when the present compute stream has
// reached the call. wait(),
//   and a blocking call, make the compute stream wait; the host goes on.
// - An error of NCCL or a collective that does not end within options.timeout aborts the
// communicator; this and every
//   later call and wait() then throw peer with a sentence that names the missing rank, the
//   collective and its number.
// - barrier() is host's.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host, NcclApi api,
                                                     const ParallelOptions& options = {});

}  // namespace gpuhpc
