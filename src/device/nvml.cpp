#include "gpuhpc/device/nvml.hpp"

#include <dlfcn.h>

#include <memory>

namespace gpuhpc {
namespace {

// Of nvml.h, which not every toolkit brings. 0 is success in all of them.
struct Utilisation {
  unsigned gpu, memory;  // percent
};
using Init = int (*)();
using HandleByBus = int (*)(const char* bus, void** device);
using UtilisationRates = int (*)(void* device, Utilisation* rates);

}  // namespace

NvmlFunctions open_nvml() {
  const std::shared_ptr<void> library(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL),
                                      [](void* handle) {
                                        if (handle != nullptr) ::dlclose(handle);
                                      });
  return [library](const char* name) { return library ? ::dlsym(library.get(), name) : nullptr; };
}

GpuMeter::GpuMeter(const std::string& bus, NvmlFunctions functions)
    : functions_(std::move(functions)) {
  const auto init = reinterpret_cast<Init>(functions_("nvmlInit_v2"));
  const auto handle = reinterpret_cast<HandleByBus>(functions_("nvmlDeviceGetHandleByPciBusId_v2"));
  started_ = init != nullptr && init() == 0;
  if (!started_ || handle == nullptr || handle(bus.c_str(), &gpu_) != 0) gpu_ = nullptr;
}

GpuMeter::~GpuMeter() {
  const auto shutdown = reinterpret_cast<Init>(functions_("nvmlShutdown"));
  if (started_ && shutdown != nullptr) shutdown();
}

std::optional<double> GpuMeter::utilisation() {
  const auto now = std::chrono::steady_clock::now();
  if (gpu_ == nullptr ||
      (asked_ != decltype(asked_){} && now - asked_ < std::chrono::milliseconds(500)))
    return last_;
  asked_ = now;
  const auto ask = reinterpret_cast<UtilisationRates>(functions_("nvmlDeviceGetUtilizationRates"));
  Utilisation rates{};
  last_ =
      ask != nullptr && ask(gpu_, &rates) == 0 ? std::optional<double>(rates.gpu) : std::nullopt;
  return last_;
}

}  // namespace gpuhpc
