#include "gpuhpc/plan/gpus.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t mib = 1 << 20;

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const GpuKind& kind : gpu_kinds()) all.push_back(kind.name);
  return all;
}

}  // namespace

std::span<const GpuKind> gpu_kinds() {
  static const GpuKind table[] = {
      {"v100-16", 16160 * mib, 70, 15.7, 0, 125, 0, 900, 150},
      {"a100-40", 40960 * mib, 80, 19.5, 156, 312, 312, 1555, 300},
      {"rtx3080-10", 10240 * mib, 86, 29.8, 29.8, 59.5, 59.5, 760, 16},
      {"rtx4090-24", 24564 * mib, 89, 82.6, 82.6, 165.2, 165.2, 1008, 16},
      {"a6000-48", 49140 * mib, 86, 38.7, 77.4, 154.8, 154.8, 768, 16},
      {"h100-80", 81559 * mib, 90, 66.9, 494.7, 989.4, 989.4, 3350, 450},
      {"h200-141", 143771 * mib, 90, 66.9, 494.7, 989.4, 989.4, 4800, 450},
  };
  return table;
}

double GpuKind::tflops(const std::string& precision) const {
  return precision == "bf16"   ? bf16
         : precision == "fp16" ? fp16
         : precision == "tf32" ? tf32
                               : fp32;
}

std::int64_t GpuKind::usable() const {
  if (sm == 0) return memory;
  return static_cast<std::int64_t>((1 - gaps) * static_cast<double>(memory - context));
}

const GpuKind& gpu_kind(const std::string& name) {
  for (const GpuKind& kind : gpu_kinds())
    if (kind.name == name) return kind;
  throw usage_error("--plan.gpu {}: there is no such GPU here; there are {}, auto and cpu", name,
                    fmt::join(names(), ", "));
}

GpuKind gpu_like(const std::string& driver_name, std::int64_t memory) {
  const std::pair<const char*, const char*> words[] = {
      {"V100", "v100-16"},   {"A100", "a100-40"}, {"3080", "rtx3080-10"}, {"4090", "rtx4090-24"},
      {"A6000", "a6000-48"}, {"H100", "h100-80"}, {"H200", "h200-141"}};
  for (const auto& [word, name] : words)
    if (driver_name.find(word) != std::string::npos) {
      GpuKind kind = gpu_kind(name);
      kind.name = driver_name, kind.memory = memory;
      return kind;
    }
  throw configuration_error(
      "--plan.gpu auto: nothing is known of the speed of {}; name one that is like it: {}",
      driver_name, fmt::join(names(), ", "));
}

}  // namespace gpuhpc
