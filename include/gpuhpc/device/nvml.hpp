#pragma once
// How busy a GPU is, as NVIDIA's management library tells. The library comes with the driver: it is
// opened at run time, nothing is linked.
#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace gpuhpc {

// The address of a function of libnvidia-ml.so.1; null where the library or the function is not
// there.
using NvmlFunctions = std::function<void*(const char* name)>;
NvmlFunctions open_nvml();

class GpuMeter {
 public:
  // `bus`: as query_gpu() names it.
  explicit GpuMeter(const std::string& bus, NvmlFunctions functions = open_nvml());
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  // Percent of the driver's last sample period (a sixth of a second to a second) in which the GPU
  // computed; asked for at most twice a second. Nothing where library, driver or GPU (one cut up by
  // MIG, for example) do not tell.
  std::optional<double> utilisation();

 private:
  NvmlFunctions functions_;
  void* gpu_ = nullptr;
  bool started_ = false;
  std::optional<double> last_;
  std::chrono::steady_clock::time_point asked_{};
};

}  // namespace gpuhpc
