#include "gpuhpc/device/memory.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#ifdef GPUHPC_WITH_CUDA
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstring>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

struct Counter {
  std::atomic<std::int64_t> used{0}, peak{0}, limit{0};

  // False, and nothing counted, when `bytes` more would pass the limit.
  bool add(std::int64_t bytes) {
    const std::int64_t most = limit.load(), now = used.fetch_add(bytes) + bytes;
    if (most > 0 && now > most) {
      used.fetch_sub(bytes);
      return false;
    }
    for (std::int64_t highest = peak.load(); now > highest && !peak.compare_exchange_weak(highest, now);) {
    }
    return true;
  }
};

class CountingAllocator;
CountingAllocator* installed();

// Gives what LibTorch's own allocator gives. The system knows each block's size, so that nothing is stored beside it.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, at::Device(at::kCPU)};
    if (const std::int64_t most = counter.limit.load(); most > 0 && static_cast<std::int64_t>(bytes) > most - counter.used.load())
      refuse(bytes);  // without asking the system for memory that nobody may have
    void* data = c10::alloc_cpu(bytes);
    if (!counter.add(static_cast<std::int64_t>(malloc_usable_size(data)))) {
      c10::free_cpu(data);
      refuse(bytes);
    }
    return {data, data, &release, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

  Counter counter;

 private:
  [[noreturn]] void refuse(std::size_t bytes) const {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "a tensor of ", bytes, " bytes does not fit: this process holds ", counter.used.load(),
                     " of the ", counter.limit.load(),
                     " bytes that --device.memory-limit allows; raise it, or compute fewer documents at once (--train.micro-batch, --infer.token-budget)");
  }
  static void release(void* data) {
    if (data == nullptr) return;
    if (CountingAllocator* allocator = installed()) allocator->counter.used -= static_cast<std::int64_t>(malloc_usable_size(data));
    c10::free_cpu(data);
  }
};

// LibTorch holds the one allocator of the process, so that no variable of ours has to.
CountingAllocator* installed() { return dynamic_cast<CountingAllocator*>(c10::GetCPUAllocator()); }

}  // namespace

void limit_host_memory(std::int64_t bytes) {
  if (installed() == nullptr) c10::SetCPUAllocator(new CountingAllocator, 100);  // LibTorch owns it from here on, until the process ends
  installed()->counter.limit = bytes;
}

HostMemory host_memory() {
  const CountingAllocator* allocator = installed();
  if (allocator == nullptr) return {};
  return {allocator->counter.used.load(), allocator->counter.peak.load(), allocator->counter.limit.load()};
}

void reset_host_memory_peak() {
  if (CountingAllocator* allocator = installed()) allocator->counter.peak = allocator->counter.used.load();
}

void limit_cuda_memory(std::int64_t bytes, int device) {
#ifdef GPUHPC_WITH_CUDA
  at::globalContext().lazyInitDevice(at::kCUDA);
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) throw configuration_error("--device.memory-limit: GPU {} cannot be asked for its memory", device);
  const double share = static_cast<double>(bytes) / static_cast<double>(properties.totalGlobalMem);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(std::min(1.0, share), static_cast<c10::DeviceIndex>(device));
#else
  throw configuration_error("--device.memory-limit {} for GPU {}: this program was built without CUDA", bytes, device);
#endif
}

}  // namespace gpuhpc
