#pragma once
// How much memory the tensors of this process hold, and a limit on it: training then finds out that
// a batch does not fit before the machine does, and tests can make one rank run out of memory.
#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>

namespace gpuhpc {

struct HostMemory {
  // bytes that tensors in host memory hold now, as the system hands them out
  std::int64_t used = 0;
  std::int64_t peak = 0;   // most bytes since the counter was installed or reset_host_memory_peak()
  std::int64_t limit = 0;  // 0: none
};

// Puts an allocator of ours under all tensors in host memory that are made from now on (those
// before are not counted), or changes its limit; 0: no limit. It counts, and it keeps blocks of a
// megabyte and more for the next tensor of that size, in huge pages: a training step takes a fifth
// less time than on the system's own (bench/results/2026-11-21-training-step.md). What is kept is
// not counted, and is given back before memory runs out. An allocation that would pass the limit
// throws c10::OutOfMemoryError, and nothing has changed: the caller may free memory and go on. Safe
// beside allocations of other threads.
void limit_host_memory(std::int64_t bytes);
HostMemory host_memory();       // zeros while no counting allocator is installed
void reset_host_memory_peak();  // forgets what is kept; the peak starts again from what is held

// Bytes that tensors hold in the memory of one GPU. Only where there is one. (Never run on a GPU.)
struct DeviceMemory {
  // now, and at most since the process started or reset_device_memory_peak()
  std::int64_t used = 0, peak = 0;
};
DeviceMemory device_memory(int device);
void reset_device_memory_peak(int device);  // the peak starts again from what is held now

// Bytes that the system still has for this process: of what is free, no more than the limits of its
// control groups leave (those of a container, or of a job of Slurm). 0: it does not say. Paths are
// below `root`.
std::int64_t free_host_memory(const std::filesystem::path& root = "/");
// Bytes that further tensors of this process may take where this device has its memory, and those
// that they hold there now. (Never run on a GPU.)
std::int64_t free_memory(c10::Device device);
std::int64_t tensor_memory(c10::Device device);

// limit_host_memory's limit for one GPU, by LibTorch's own allocator: its tensors and its cache
// stay below `bytes`. (Never run on a GPU.) Throws configuration_error in a program built without
// CUDA.
void limit_cuda_memory(std::int64_t bytes, int device);

}  // namespace gpuhpc
