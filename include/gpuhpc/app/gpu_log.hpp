#pragma once
// What one GPU does while a stage runs.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/device/gpu.hpp"

namespace gpuhpc {

// As CSV, `time,utilisation_percent,memory_bytes`, a line a period while this lives, the first at
// once: seconds since 1970, what the driver tells (empty where it does not) and what `memory` does.
// Lines of an earlier start stay. A file that cannot be written ends the log, with a warning.
class GpuLog {
 public:
  struct Source {
    std::string bus;  // as query_gpu() names the GPU
    std::function<std::int64_t()> memory;
    NvmlFunctions functions = open_nvml();
  };
  GpuLog(std::filesystem::path path, Source source, Log log,
         std::chrono::milliseconds period = std::chrono::seconds(1));
  ~GpuLog();
  GpuLog(const GpuLog&) = delete;
  GpuLog& operator=(const GpuLog&) = delete;

 private:
  void watch(std::future<void> over);

  std::filesystem::path path_;
  Source source_;
  Log log_;
  std::chrono::milliseconds period_;
  std::promise<void> over_;
  std::thread thread_;
};

}  // namespace gpuhpc
