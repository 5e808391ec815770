#include "gpuhpc/device/gpu.hpp"

#ifdef GPUHPC_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

GpuFacts query_gpu([[maybe_unused]] int index) {
#ifdef GPUHPC_WITH_CUDA
  cudaDeviceProp properties{};
  char bus[32] = {};
  cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error == cudaSuccess) error = cudaDeviceGetPCIBusId(bus, sizeof(bus), index);
  if (error != cudaSuccess)
    throw configuration_error("GPU {} cannot be asked what it is ({}); check nvidia-smi", index,
                              cudaGetErrorString(error));
  return {properties.name, bus, static_cast<std::int64_t>(properties.totalGlobalMem)};
#else
  throw configuration_error("this program was built without CUDA");
#endif
}

PeerAccess query_peer_access(int gpus) {
  PeerAccess access;
  access.pairs = gpus * (gpus - 1) / 2;
#ifdef GPUHPC_WITH_CUDA
  for (int a = 0; a < gpus; ++a)
    for (int b = a + 1; b < gpus; ++b) {
      int there = 0, back = 0;
      if (cudaDeviceCanAccessPeer(&there, a, b) == cudaSuccess &&
          cudaDeviceCanAccessPeer(&back, b, a) == cudaSuccess && there != 0 && back != 0)
        ++access.direct;
    }
#endif
  return access;
}

}  // namespace gpuhpc
