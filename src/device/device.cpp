#include "gpuhpc/device/device.hpp"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <thread>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/device/memory.hpp"

namespace gpuhpc {

void declare(config::Section& section, DeviceOptions& options) {
  section.option("kind", options.kind, "where models run; auto takes a GPU when there is one")
      .one_of({"auto", "cpu", "cuda"})
      .common();
  section
      .option("threads", options.threads,
              "CPU threads of each rank; 0 shares the cores of a host among its ranks")
      .range(0, 4096)
      .common();
  section.option("ids", options.ids,
                 "GPUs to use, of those that are visible, such as 0,2; empty: all of them");
  section
      .option("isa", options.isa,
              "highest instruction set that the CPU kernels may use; auto: the best that this "
              "processor has")
      .one_of({"auto", "generic", "avx2", "avx512", "avx512-bf16", "amx"});
  section
      .option("memory-limit", options.memory_limit,
              "memory that the tensors of a rank may take at most, in host memory or on its GPU; "
              "0: no limit")
      .range(0, 1e15)
      .unit("bytes");
  section.option("deterministic", options.deterministic,
                 "only operators that give the same bits every time (same machine, threads and "
                 "ranks); processors always do, GPUs lose speed");
}

CoreSet query_cores() {
  CoreSet cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    for (std::size_t core = 0; core < cores.size(); ++core) cores[core] = CPU_ISSET(core, &set);
  return cores;
}

int share_of_cores(const CoreSet& mine, std::span<const CoreSet> on_host) {
  double share = 0;
  for (std::size_t core = 0; core < mine.size(); ++core)
    if (mine[core])
      share += 1.0 / static_cast<double>(std::ranges::count_if(
                         on_host, [&](const CoreSet& cores) { return cores[core]; }));
  return static_cast<int>(share + 1e-6);  // thirds add up to a hair less than one
}

int query_cuda_devices() {
  return at::hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
}

std::vector<int> usable_gpus(const DeviceOptions& options, int visible) {
  std::vector<int> gpus;
  if (options.ids.empty()) {
    if (options.kind != "cpu")
      for (int index = 0; index < visible; ++index) gpus.push_back(index);
    return gpus;
  }
  if (options.kind == "cpu")
    throw usage_error("--device.ids {} names GPUs, but --device.kind is cpu; leave one of them out",
                      options.ids);
  for (const std::string& word : config::split_list(options.ids)) {
    int index = 0;
    if (!config::parse_number(word, index) || index < 0 ||
        std::ranges::find(gpus, index) != gpus.end())
      throw usage_error("--device.ids {}: different numbers are expected, such as 0,2",
                        options.ids);
    if (index >= visible)
      throw configuration_error(
          "--device.ids {}: there is no GPU {}; visible are {}, numbered from 0 (nvidia-smi, "
          "CUDA_VISIBLE_DEVICES)",
          options.ids, index, visible);
    gpus.push_back(index);
  }
  return gpus;
}

DeviceChoice choose_device(const DeviceOptions& options, const DeviceFacts& facts, int node_rank,
                           int node_size) {
  DeviceChoice choice;
  if (options.kind == "cuda" && facts.cuda_devices == 0)
    throw configuration_error(
        "--device.kind is cuda but no GPU is visible; check nvidia-smi and CUDA_VISIBLE_DEVICES, "
        "or use --device.kind cpu");
  const std::vector<int> gpus = usable_gpus(options, facts.cuda_devices);
  choice.cuda = !gpus.empty();
  if (gpus.size() > 1 && node_size > std::ssize(gpus))
    throw configuration_error("{} ranks on a host with {} GPUs; start at most one rank per GPU",
                              node_size, gpus.size());
  if (choice.cuda) choice.index = gpus[static_cast<std::size_t>(node_rank) % gpus.size()];
  choice.threads =
      options.threads > 0 ? static_cast<int>(options.threads) : std::max(1, facts.cores);
  return choice;
}

void prepare_process(const DeviceOptions& options) {
  if (options.deterministic)
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // cuBLAS reads it when it starts
}

namespace {

// LibTorch has them twice, in OpenMP's team and in a pool of its own. Where a limit leaves no room
// for them the pool waits for ever, and OpenMP ends the process in its own words: what is thrown
// here can be explained.
void try_threads(int count) {
  std::latch tried(1);
  std::vector<std::jthread> threads;
  try {
    for (int i = 0; i < 2 * (count - 1); ++i) threads.emplace_back([&tried] { tried.wait(); });
  } catch (...) {
    tried.count_down();
    throw;
  }
  tried.count_down();
}

}  // namespace

void apply(const DeviceOptions& options, const DeviceChoice& choice) {
  try_threads(choice.threads);
  at::set_num_threads(choice.threads);
  if (choice.cuda) at::accelerator::setDeviceIndex(static_cast<c10::DeviceIndex>(choice.index));
  if (options.memory_limit > 0 && choice.cuda)
    limit_cuda_memory(options.memory_limit, choice.index);
  // Of the process: one old GPU turns it off for all.
  if (choice.cuda && !multiplies_bf16(choice.index)) at::globalContext().setSDPUseFlash(false);
  limit_host_memory(choice.cuda ? 0 : options.memory_limit);
  if (!options.deterministic) return;
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(
      false);  // nothing here reads what nobody wrote
}

c10::Device torch_device(const DeviceChoice& choice) {
  return choice.cuda ? c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(choice.index))
                     : c10::Device(c10::kCPU);
}

std::string describe(const DeviceChoice& choice) {
  const std::string threads =
      fmt::format("{} thread{}", choice.threads, choice.threads == 1 ? "" : "s");
  return choice.cuda ? fmt::format("cuda:{}, {}", choice.index, threads) : "cpu, " + threads;
}

std::int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::int64_t kib = 0; word == "VmHWM:" && status >> kib) return kib * 1024;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

void reset_peak_memory() {
  reset_host_memory_peak();  // forgets the blocks that are kept: gigabytes of a training
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;  // see proc(5)
}

std::int64_t resident_memory() {
  std::ifstream pages("/proc/self/statm");
  std::int64_t mapped = 0, resident = 0;
  pages >> mapped >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace gpuhpc
