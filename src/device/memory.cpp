#include "gpuhpc/device/memory.hpp"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <sys/mman.h>
#ifdef GPUHPC_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#endif

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <unordered_map>

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
    for (std::int64_t highest = peak.load();
         now > highest && !peak.compare_exchange_weak(highest, now);) {
    }
    return true;
  }
};

// Blocks of a megabyte and more, straight from the system in huge pages where it has them, and kept
// when a tensor dies: a training step asks for the same hundreds of megabytes again and again, and
// fresh pages cost more than the arithmetic on them.
class LargeBlocks {
 public:
  static constexpr std::int64_t smallest = 1 << 20;

  // At most an eighth more than asked for, so that batches of like size share blocks.
  static std::int64_t rounded(std::int64_t bytes) {
    const std::int64_t step = std::bit_floor(static_cast<std::uint64_t>(bytes)) / 8;
    return (bytes + step - 1) / step * step;
  }
  // Null when the system has none. Blocks kept and blocks given out together stay below `most`.
  void* take(std::int64_t bytes, std::int64_t most) {
    const std::lock_guard lock(mutex_);
    const auto kept = kept_.lower_bound(bytes);
    void* block = nullptr;
    if (kept != kept_.end() && kept->first <= bytes + bytes / 4) {
      bytes = kept->first;
      block = kept->second;
      kept_bytes_ -= bytes;
      kept_.erase(kept);
    } else {
      shrink(std::max<std::int64_t>(0, most - given_bytes_ - bytes));
      block = map(bytes);
      if (block == nullptr) {
        shrink(0);
        block = map(bytes);
      }
      if (block == nullptr) return nullptr;
    }
    given_.emplace(block, bytes);
    given_bytes_ += bytes;
    return block;
  }
  // Bytes of the block, which is kept from now on; 0: it is none of these.
  std::int64_t give_back(void* block) {
    const std::lock_guard lock(mutex_);
    const auto given = given_.find(block);
    if (given == given_.end()) return 0;
    const std::int64_t bytes = given->second;
    given_.erase(given);
    given_bytes_ -= bytes;
    kept_.emplace(bytes, block);
    kept_bytes_ += bytes;
    return bytes;
  }
  void forget_kept() {
    const std::lock_guard lock(mutex_);
    shrink(0);
  }
  std::int64_t size_of(void* block) {
    const std::lock_guard lock(mutex_);
    const auto given = given_.find(block);
    return given == given_.end() ? 0 : given->second;
  }

 private:
  static constexpr std::int64_t huge_page = 2 << 20;
  static std::int64_t mapped_bytes(std::int64_t bytes) {
    return (bytes + huge_page - 1) / huge_page * huge_page;
  }
  // On a huge page's boundary; what is mapped around it is given back at once.
  static void* map(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(mapped_bytes(bytes)), room = size + huge_page;
    void* start = mmap(nullptr, room, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return nullptr;
    auto* first = static_cast<std::byte*>(start);
    const std::size_t before =
        (huge_page - reinterpret_cast<std::uintptr_t>(first) % huge_page) % huge_page;
    if (before > 0) munmap(first, before);
    if (before < huge_page) munmap(first + before + size, huge_page - before);
    madvise(first + before, size, MADV_HUGEPAGE);  // a wish: without it everything works
    return first + before;
  }
  // The largest blocks go first.
  void shrink(std::int64_t most) {
    while (kept_bytes_ > most && !kept_.empty()) {
      const auto largest = std::prev(kept_.end());
      munmap(largest->second, static_cast<std::size_t>(mapped_bytes(largest->first)));
      kept_bytes_ -= largest->first;
      kept_.erase(largest);
    }
  }

  std::mutex mutex_;
  std::unordered_map<void*, std::int64_t> given_;
  std::multimap<std::int64_t, void*> kept_;
  std::int64_t given_bytes_ = 0, kept_bytes_ = 0;
};

class CountingAllocator;
CountingAllocator* installed();

// Small blocks are LibTorch's own allocator's; the system knows their sizes.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t asked) override {
    if (asked == 0) return {nullptr, nullptr, &release, at::Device(at::kCPU)};
    const auto bytes = static_cast<std::int64_t>(asked);
    if (const std::int64_t most = counter.limit.load();
        bytes < 0 || (most > 0 && bytes > most - counter.used.load()))
      refuse(asked);
    if (bytes >= LargeBlocks::smallest) return large(bytes);
    void* data = c10::alloc_cpu(asked);
    if (!counter.add(static_cast<std::int64_t>(malloc_usable_size(data)))) {
      c10::free_cpu(data);
      refuse(asked);
    }
    return {data, data, &release, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  void reset_peak() {
    blocks_.forget_kept();
    counter.peak = counter.used.load();
  }

  Counter counter;

 private:
  c10::DataPtr large(std::int64_t asked) {
    const std::int64_t most = counter.limit.load(),
                       kept = counter.peak.load() + counter.peak.load() / 4 + (64 << 20);
    void* data = blocks_.take(LargeBlocks::rounded(asked), most > 0 ? std::min(most, kept) : kept);
    if (data == nullptr) refuse(static_cast<std::size_t>(asked));
    if (!counter.add(blocks_.size_of(data))) {
      blocks_.give_back(data);
      refuse(static_cast<std::size_t>(asked));
    }
    return {data, data, &release, at::Device(at::kCPU)};
  }
  [[noreturn]] void refuse(std::size_t bytes) const {
    const std::int64_t most = counter.limit.load();
    TORCH_CHECK_WITH(OutOfMemoryError, most == 0, "a tensor of ", bytes,
                     " bytes does not fit: this process holds ", counter.used.load(), " of the ",
                     most,
                     " bytes that --device.memory-limit allows; raise it, or compute fewer "
                     "documents at once (--train.micro-batch, ",
                     "--infer.token-budget)");
    TORCH_CHECK_WITH(OutOfMemoryError, false, "a tensor of ", bytes,
                     " bytes does not fit: this process holds ", counter.used.load(),
                     " bytes and the system gives no more; compute fewer documents at once "
                     "(--train.micro-batch, --infer.token-budget)");
  }
  static void release(void* data) {
    CountingAllocator* allocator = installed();
    if (data == nullptr || allocator == nullptr) return;
    // Large blocks begin on huge pages; few others do.
    const bool perhaps = reinterpret_cast<std::uintptr_t>(data) % (2 << 20) == 0;
    if (const std::int64_t bytes = perhaps ? allocator->blocks_.give_back(data) : 0; bytes > 0) {
      allocator->counter.used -= bytes;
      return;
    }
    allocator->counter.used -= static_cast<std::int64_t>(malloc_usable_size(data));
    c10::free_cpu(data);
  }

  LargeBlocks blocks_;
};

// LibTorch holds the one allocator of the process, so that no variable of ours has to.
CountingAllocator* installed() { return dynamic_cast<CountingAllocator*>(c10::GetCPUAllocator()); }

}  // namespace

void limit_host_memory(std::int64_t bytes) {
  if (installed() == nullptr)
    c10::SetCPUAllocator(new CountingAllocator,
                         255);  // LibTorch owns it from here on, until the process ends
  installed()->counter.limit = bytes;
}

HostMemory host_memory() {
  const CountingAllocator* allocator = installed();
  if (allocator == nullptr) return {};
  return {allocator->counter.used.load(), allocator->counter.peak.load(),
          allocator->counter.limit.load()};
}

void reset_host_memory_peak() {
  if (CountingAllocator* allocator = installed()) allocator->reset_peak();
}

namespace {

// Where no tensor has been made yet there is nothing to ask, and asking would throw.
bool has_device_tensors() {
  return at::hasCUDA() && at::getDeviceAllocator(at::kCUDA)->initialized();
}

}  // namespace

void reset_device_memory_peak(int device) {
  if (has_device_tensors()) at::accelerator::resetPeakStats(static_cast<c10::DeviceIndex>(device));
}

DeviceMemory device_memory(int device) {
  if (!has_device_tensors()) return {};
  const auto stats = at::accelerator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
  const auto& tensors =
      stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  return {tensors.current, tensors.peak};
}

void limit_cuda_memory(std::int64_t bytes, int device) {
#ifdef GPUHPC_WITH_CUDA
  at::globalContext().lazyInitDevice(at::kCUDA);
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess)
    throw configuration_error("--device.memory-limit: GPU {} does not tell how much memory it has",
                              device);
  const double share = static_cast<double>(bytes) / static_cast<double>(properties.totalGlobalMem);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(std::min(1.0, share),
                                                     static_cast<c10::DeviceIndex>(device));
#else
  throw configuration_error(
      "--device.memory-limit {} for GPU {}: this program was built without CUDA", bytes, device);
#endif
}

}  // namespace gpuhpc
