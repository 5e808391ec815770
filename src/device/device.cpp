#include "gpuhpc/device/device.hpp"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

void declare(config::Section& section, DeviceOptions& options) {
  section.option("kind", options.kind, "where models run; auto takes a GPU when there is one").one_of({"auto", "cpu", "cuda"});
  section.option("threads", options.threads, "CPU threads of each rank; 0 shares the cores of a host among its ranks").range(0, 4096);
}

DeviceFacts query_devices() {
  DeviceFacts facts;
  facts.cuda_devices = at::hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
  cpu_set_t set;
  CPU_ZERO(&set);
  facts.cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
  return facts;
}

DeviceChoice choose_device(const DeviceOptions& options, const DeviceFacts& facts, int node_rank, int node_size) {
  DeviceChoice choice;
  if (options.kind == "cuda" && facts.cuda_devices == 0)
    throw configuration_error("--device.kind is cuda but no GPU is visible; check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device.kind cpu");
  choice.cuda = options.kind != "cpu" && facts.cuda_devices > 0;
  if (choice.cuda && facts.cuda_devices > 1 && node_size > facts.cuda_devices)
    throw configuration_error("{} ranks on a host with {} GPUs; start at most one rank a GPU", node_size, facts.cuda_devices);
  choice.index = choice.cuda ? node_rank % facts.cuda_devices : 0;
  choice.threads = options.threads > 0 ? static_cast<int>(options.threads) : std::max(1, facts.cores / std::max(1, node_size));
  return choice;
}

std::string describe(const DeviceChoice& choice) {
  const std::string threads = fmt::format("{} thread{}", choice.threads, choice.threads == 1 ? "" : "s");
  return choice.cuda ? fmt::format("cuda:{}, {}", choice.index, threads) : "cpu, " + threads;
}

std::int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace gpuhpc
