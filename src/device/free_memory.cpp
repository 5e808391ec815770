#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "gpuhpc/device/memory.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

// The number behind `key` at the start of a line, or the first number where there is no key.
std::optional<std::int64_t> number_in(const fs::path& path, std::string_view key = {}) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream rest(line.substr(key.size()));
    if (std::int64_t value = 0; rest >> value) return value;
  }
  return std::nullopt;
}

struct GroupFiles {
  const char *limit, *usage, *reclaimable;
};

// What the limit of one control group leaves: the pages of files that it could drop count as free.
std::int64_t left_in(const fs::path& group, const GroupFiles& files) {
  const auto limit = number_in(group / files.limit), used = number_in(group / files.usage);
  if (!limit || !used) return no_limit;  // none, or the word `max`
  const std::int64_t pages = number_in(group / "memory.stat", files.reclaimable).value_or(0);
  return std::max<std::int64_t>(0, *limit - *used + pages);
}

}  // namespace

std::int64_t free_host_memory(const fs::path& root) {
  std::int64_t left = no_limit;
  if (const auto kilobytes = number_in(root / "proc/meminfo", "MemAvailable:"))
    left = *kilobytes * 1024;
  // cgroups(7): `0::/path` is version 2, `4:memory:/path` version 1. Every group above counts; in a
  // container the path may be one of the host's, of which only the top is there.
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kinds = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = kinds == ",,";
    if (!unified && kinds.find(",memory,") == std::string::npos) continue;
    const GroupFiles files = unified ? GroupFiles{"memory.max", "memory.current", "inactive_file "}
                                     : GroupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes",
                                                  "total_inactive_file "};
    const fs::path top = root / (unified ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();;
         group = group.parent_path()) {
      left = std::min(left, left_in(top / group, files));
      if (group.empty()) break;
    }
  }
  return left == no_limit ? 0 : left;
}

std::int64_t free_memory(c10::Device device) {
  if (device.is_cpu()) {
    const HostMemory tensors = host_memory();
    const std::int64_t free = free_host_memory();
    return tensors.limit > 0 ? std::min(free, tensors.limit - tensors.used) : free;
  }
  const auto stats = at::accelerator::getDeviceStats(device.index());
  const auto whole = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return static_cast<std::int64_t>(at::accelerator::getMemoryInfo(device.index()).first) +
         stats.reserved_bytes[whole].current - stats.allocated_bytes[whole].current;
}

std::int64_t tensor_memory(c10::Device device) {
  return device.is_cpu() ? host_memory().used : device_memory(device.index()).used;
}

}  // namespace gpuhpc
