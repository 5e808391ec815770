#pragma once
// What the CUDA runtime says of the GPUs that this process sees. Compiled with the rest, never run
// on a GPU yet.
#include <cstdint>
#include <string>

namespace gpuhpc {

struct GpuFacts {
  std::string name, bus;    // "NVIDIA RTX A6000", "0000:3b:00.0": the same GPU has the same bus
                            // number in every process of its host
  std::int64_t memory = 0;  // bytes, all of it
};
// Throws configuration_error where the GPU cannot be asked, and in a program built without CUDA.
GpuFacts query_gpu(int index);

// Of the visible GPUs, the pairs that reach each other's memory without the host.
struct PeerAccess {
  int direct = 0, pairs = 0;
};
PeerAccess query_peer_access(int gpus);

}  // namespace gpuhpc
