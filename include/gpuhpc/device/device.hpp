#pragma once
// Which device and how many threads a rank uses: a pure function of options, facts and the rank's
// place on its host.
#include <c10/core/Device.h>

#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

struct DeviceOptions {
  static constexpr const char* section = "device";
  std::string kind = "auto";
  std::int64_t threads = 0;
  std::string ids = {};           // "0,2": the visible GPUs to use; empty: all
  std::string isa = "auto";       // highest instruction set of the CPU kernels
  std::int64_t memory_limit = 0;  // bytes of tensors per rank; 0: none
  bool deterministic = false;
};
void declare(config::Section& section, DeviceOptions& options);

using CoreSet = std::bitset<1024>;
CoreSet
query_cores();  // that this process may run on: what Slurm, mpirun or taskset left of the host's

// Whole cores that a rank may count as its own: each one it may run on, shared with the ranks of
// its host that may run on it, too. `on_host` holds the sets of all these ranks, `mine` included.
// Right for launchers that bind each rank and for those that bind none.
int share_of_cores(const CoreSet& mine, std::span<const CoreSet> on_host);

struct DeviceFacts {
  int cuda_devices = 0;  // visible to this process
  int cores = 1;         // this rank's share
};
int query_cuda_devices();

// The GPUs that this process may use, of the `visible` ones: none for kind "cpu", --device.ids
// where it is given. Throws usage_error for ids of processors, and ids that are no list of
// different numbers; configuration_error for one that is not visible.
std::vector<int> usable_gpus(const DeviceOptions& options, int visible);

struct DeviceChoice {
  bool cuda = false;
  int index = 0;    // of the CUDA device
  int threads = 1;  // CPU threads of this rank
};
// Rank k of a host takes the k-th usable GPU modulo their number (one that is the only one is taken
// by all: the launcher chose). Threads: one a core of its share. Throws configuration_error for
// kind "cuda" without a GPU, or with more ranks than GPUs.
DeviceChoice choose_device(const DeviceOptions& options, const DeviceFacts& facts, int node_rank,
                           int node_size);

// The environment that the libraries of deterministic operators read; before a process has threads.
void prepare_process(const DeviceOptions& options);

// Puts the choice into effect in this process: threads of the operators, memory limit (memory.hpp),
// deterministic operators. Called once at the start, before the first tensor. Deterministic: the
// same program on the same machine with the same number of threads and ranks gives the same bits;
// processors do so anyway, GPUs pay for it. An operator that cannot throws when it is called.
void apply(const DeviceOptions& options, const DeviceChoice& choice);

c10::Device torch_device(const DeviceChoice& choice);

// "cpu, 2 threads" or "cuda:3, 4 threads"
std::string describe(const DeviceChoice& choice);

// Resident memory of this process, bytes: at most since it started or the peak was reset, and now.
std::int64_t peak_memory();
// What is free goes back to the system; then the peak starts again from now, where the system can
// do that.
void reset_peak_memory();
std::int64_t resident_memory();

}  // namespace gpuhpc
