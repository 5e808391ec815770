#pragma once
// How the ranks of this launch lie on hosts, cores and GPUs.
#include <string>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/device/device.hpp"

namespace gpuhpc {

struct RankPlace {
  std::string host, gpu;  // GpuFacts::identity of its GPU, empty without one
  int cuda_devices = 0;   // that it sees
};
// Throws configuration_error when some ranks would run on GPUs and others, which see none, on
// processors.
void check_same_kind(const std::vector<RankPlace>& ranks);
// Throws configuration_error when two ranks drive one GPU.
void check_gpus_apart(const std::vector<RankPlace>& ranks);

// choose_device with what all ranks see. Collective; all ranks throw if one does.
DeviceChoice choose_device_together(Communicator& comm, const DeviceOptions& options);

// How a run under mpirun is stopped in order; empty where a Ctrl-C does that.
std::string how_to_stop(const Environment& environment);

}  // namespace gpuhpc
