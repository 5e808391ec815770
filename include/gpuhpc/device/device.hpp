#pragma once
// Which device and how many threads a rank uses: a pure function of options, facts and the rank's place on its host.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

struct DeviceOptions {
  std::string kind = "auto";
  std::int64_t threads = 0;
};
void declare(config::Section& section, DeviceOptions& options);

struct DeviceFacts {
  int cuda_devices = 0;  // visible to this process
  int cores = 1;         // this process may run on
};
DeviceFacts query_devices();

struct DeviceChoice {
  bool cuda = false;
  int index = 0;    // of the CUDA device
  int threads = 1;  // CPU threads of this rank
};
// Rank k of a host takes GPU k modulo their number (a GPU that is the only one visible is taken by all: the launcher chose).
// Threads: an equal share of the cores. Throws configuration_error for kind "cuda" without a GPU, or with more ranks than GPUs.
DeviceChoice choose_device(const DeviceOptions& options, const DeviceFacts& facts, int node_rank, int node_size);

// "cpu, 2 threads" or "cuda:3, 4 threads"
std::string describe(const DeviceChoice& choice);

// Peak resident memory of this process, bytes.
std::int64_t peak_memory();

}  // namespace gpuhpc
