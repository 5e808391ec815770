#pragma once
// What NcclCommunicator needs of NCCL and of the device's streams, as a table of functions: the
// library's, or a test's over host memory. Handles are the library's own pointers.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

using NcclId = std::array<char, 128>;

struct NcclApi {
  using Comm = void*;
  using Stream = void*;
  using Event = void*;
  // NCCL's result numbers; any other is an error.
  static constexpr int kSuccess = 0, kInProgress = 7;

  // NCCL's functions of these names; the communicator is non-blocking (config.blocking = 0), counts
  // are elements.
  std::function<int(NcclId& id)> get_unique_id;
  std::function<int(Comm& comm, int size, const NcclId& id, int rank)> comm_init_rank_config;
  std::function<int(const void* send, void* receive, std::int64_t count, DataType, Reduce, Comm,
                    Stream)>
      all_reduce;
  std::function<int(const void* send, void* receive, std::int64_t count, DataType, Reduce, Comm,
                    Stream)>
      reduce_scatter;  // count: received
  std::function<int(const void* send, void* receive, std::int64_t count, DataType, Comm, Stream)>
      all_gather;  // count: sent
  std::function<int(const void* send, void* receive, std::int64_t count, DataType, int root, Comm,
                    Stream)>
      broadcast;
  std::function<int()> group_start, group_end;
  std::function<int(Comm comm, int& state)> comm_get_async_error;
  std::function<int(Comm comm)> comm_finalize, comm_destroy,
      comm_abort;  // abort: from any thread, ends what is under way
  std::function<std::string(int result)> error_text;

  // Streams and events of this rank's device. They throw internal_error, or out_of_memory.
  std::function<void()> set_device;  // for the calling thread
  std::function<Stream()> create_stream;
  std::function<void(Stream)> destroy_stream;
  std::function<Stream()> compute_stream;  // the calling thread's present one
  std::function<Event()> create_event;
  std::function<void(Event)> destroy_event;
  std::function<void(Event, Stream)> record_event;
  std::function<bool(Event)> event_done;
  std::function<void(Stream, Event)> stream_wait_event;
};

// The real table, for CUDA device `index`. Throws configuration_error where this program was built
// without CUDA. Compiled with the rest, never run on a GPU yet.
NcclApi make_nccl_api(int index);

// NCCL between the GPUs of the ranks, one GPU per rank. Its logic is tested against a table over
// host memory; it has never run on a GPU yet.

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
