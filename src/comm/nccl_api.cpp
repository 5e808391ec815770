#include "gpuhpc/comm/nccl.hpp"

#include "gpuhpc/base/error.hpp"

#ifdef GPUHPC_WITH_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#endif

namespace gpuhpc {

#ifdef GPUHPC_WITH_CUDA
namespace {

static_assert(NcclApi::kSuccess == ncclSuccess && NcclApi::kInProgress == ncclInProgress);
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::float32:
      return ncclFloat32;
    case DataType::float64:
      return ncclFloat64;
    case DataType::bfloat16:
      return ncclBfloat16;
    case DataType::float16:
      return ncclFloat16;
    case DataType::int32:
      return ncclInt32;
    case DataType::int64:
      return ncclInt64;
    case DataType::uint8:
      return ncclUint8;
  }
  throw internal_error("unknown wire type");
}

ncclRedOp_t nccl_op(Reduce reduce) {
  return reduce == Reduce::max ? ncclMax : reduce == Reduce::min ? ncclMin : ncclSum;
}

void check_cuda(cudaError_t result, const char* what) {
  if (result == cudaErrorMemoryAllocation)  // a smaller micro-batch may do
    throw Error(ExitCode::out_of_memory,
                fmt::format("{} failed: {}", what, cudaGetErrorString(result)));
  if (result != cudaSuccess)
    throw internal_error("{} failed: {}", what, cudaGetErrorString(result));
}

ncclComm_t comm_of(NcclApi::Comm comm) { return static_cast<ncclComm_t>(comm); }
cudaStream_t stream_of(NcclApi::Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(NcclApi::Event event) { return static_cast<cudaEvent_t>(event); }

void add_streams(NcclApi& api, int index) {
  api.set_device = [index] { check_cuda(cudaSetDevice(index), "cudaSetDevice"); };
  // Streams and events belong to the device that is the thread's present one when they are made.
  api.create_stream = [index] {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
    // High priority: a collective's few blocks must not queue behind a backward pass that fills the
    // device.
    int lowest = 0, highest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
               "cudaDeviceGetStreamPriorityRange");
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest),
               "cudaStreamCreate");
    return static_cast<NcclApi::Stream>(stream);
  };
  // Destructors call these two: what a failed device answers is nothing to throw then.
  api.destroy_stream = [](NcclApi::Stream stream) { cudaStreamDestroy(stream_of(stream)); };
  api.destroy_event = [](NcclApi::Event event) { cudaEventDestroy(event_of(event)); };
  api.compute_stream = [index] {
    return static_cast<NcclApi::Stream>(
        c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(index)).stream());
  };
  api.create_event = [index] {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    return static_cast<NcclApi::Event>(event);
  };
  // The default stream is that of the thread's present device.
  api.record_event = [index](NcclApi::Event event, NcclApi::Stream stream) {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
    check_cuda(cudaEventRecord(event_of(event), stream_of(stream)), "cudaEventRecord");
  };
  api.event_done = [](NcclApi::Event event) {
    const cudaError_t result = cudaEventQuery(event_of(event));
    if (result != cudaErrorNotReady) check_cuda(result, "cudaEventQuery");
    return result == cudaSuccess;
  };
  api.stream_wait_event = [index](NcclApi::Stream stream, NcclApi::Event event) {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
    check_cuda(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "cudaStreamWaitEvent");
  };
}

void add_collectives(NcclApi& api) {
  api.all_reduce = [](const void* send, void* receive, std::int64_t count, DataType type,
                      Reduce reduce, NcclApi::Comm comm, NcclApi::Stream stream) -> int {
    return ncclAllReduce(send, receive, static_cast<std::size_t>(count), nccl_type(type),
                         nccl_op(reduce), comm_of(comm), stream_of(stream));
  };
  api.reduce_scatter = [](const void* send, void* receive, std::int64_t count, DataType type,
                          Reduce reduce, NcclApi::Comm comm, NcclApi::Stream stream) -> int {
    return ncclReduceScatter(send, receive, static_cast<std::size_t>(count), nccl_type(type),
                             nccl_op(reduce), comm_of(comm), stream_of(stream));
  };
  api.all_gather = [](const void* send, void* receive, std::int64_t count, DataType type,
                      NcclApi::Comm comm, NcclApi::Stream stream) -> int {
    return ncclAllGather(send, receive, static_cast<std::size_t>(count), nccl_type(type),
                         comm_of(comm), stream_of(stream));
  };
  api.broadcast = [](const void* send, void* receive, std::int64_t count, DataType type, int root,
                     NcclApi::Comm comm, NcclApi::Stream stream) -> int {
    return ncclBroadcast(send, receive, static_cast<std::size_t>(count), nccl_type(type), root,
                         comm_of(comm), stream_of(stream));
  };
  api.group_start = []() -> int { return ncclGroupStart(); };
  api.group_end = []() -> int { return ncclGroupEnd(); };
}

void add_life_cycle(NcclApi& api) {
  api.get_unique_id = [](NcclId& id) -> int {
    ncclUniqueId made;
    const ncclResult_t result = ncclGetUniqueId(&made);
    std::memcpy(id.data(), &made, sizeof(made));
    return result;
  };
  api.comm_init_rank_config = [](NcclApi::Comm& comm, int size, const NcclId& id, int rank) -> int {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclUniqueId theirs;
    std::memcpy(&theirs, id.data(), sizeof(theirs));
    ncclComm_t made = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig(&made, size, theirs, rank, &config);
    comm = made;
    return result;
  };
  api.comm_get_async_error = [](NcclApi::Comm comm, int& state) -> int {
    ncclResult_t of_comm = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(comm_of(comm), &of_comm);
    state = of_comm;
    return result;
  };
  api.comm_finalize = [](NcclApi::Comm comm) -> int { return ncclCommFinalize(comm_of(comm)); };
  api.comm_destroy = [](NcclApi::Comm comm) -> int { return ncclCommDestroy(comm_of(comm)); };
  api.comm_abort = [](NcclApi::Comm comm) -> int { return ncclCommAbort(comm_of(comm)); };
  api.error_text = [](int result) -> std::string {
    return ncclGetErrorString(static_cast<ncclResult_t>(result));
  };
}

}  // namespace

NcclApi make_nccl_api(int index) {
  NcclApi api;
  add_streams(api, index);
  add_collectives(api);
  add_life_cycle(api);
  return api;
}
#else
NcclApi make_nccl_api(int) {
  throw configuration_error(
      "this gpuhpc was built without CUDA; build it where nvcc 13 is on PATH, or use --device.kind "
      "cpu");
}
#endif

}  // namespace gpuhpc
