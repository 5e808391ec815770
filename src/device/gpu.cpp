#include "gpuhpc/device/gpu.hpp"

#include <dlfcn.h>

#include <memory>

#include "gpuhpc/base/error.hpp"

#ifdef GPUHPC_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

#ifdef GPUHPC_WITH_CUDA
#include <nvtx3/nvToolsExt.h>
#endif

namespace gpuhpc {

GpuFacts query_gpu([[maybe_unused]] int index) {
#ifdef GPUHPC_WITH_CUDA
  cudaDeviceProp properties{};
  char bus[32] = {};
  cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error == cudaSuccess) error = cudaDeviceGetPCIBusId(bus, sizeof(bus), index);
  if (error != cudaSuccess)
    throw configuration_error("GPU {} does not answer ({}); check nvidia-smi", index,
                              cudaGetErrorString(error));
  std::string uuid;
  for (const char byte : properties.uuid.bytes)
    uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return {properties.name, bus, uuid, static_cast<std::int64_t>(properties.totalGlobalMem)};
#else
  throw configuration_error("this program was built without CUDA");
#endif
}

bool multiplies_bf16([[maybe_unused]] int index) {
#ifdef GPUHPC_WITH_CUDA
  int major = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) == cudaSuccess)
    return major >= 8;
  cudaGetLastError();  // not one of what comes next
#endif
  return true;
}

void check_gpu_precision(const std::string& option, const std::string& precision, bool has_bf16) {
  if (precision == "bf16" && !has_bf16)
    throw configuration_error(
        "--{} bf16: this GPU does not multiply bf16 (compute capability 8.0 and later do); use "
        "--{} fp16, or auto",
        option, option);
}

PeerAccess query_peer_access(int gpus) {
  PeerAccess access;
  access.pairs = gpus * (gpus - 1) / 2;
#ifdef GPUHPC_WITH_CUDA
  for (int a = 0; a < gpus; ++a)
    for (int b = a + 1; b < gpus; ++b) {
      int there = 0, back = 0;
      if (cudaDeviceCanAccessPeer(&there, a, b) == cudaSuccess &&
          cudaDeviceCanAccessPeer(&back, b, a) == cudaSuccess && there != 0 && back != 0)
        ++access.direct;
    }
#endif
  return access;
}

void push_range([[maybe_unused]] const std::string& name) {
#ifdef GPUHPC_WITH_CUDA
  nvtxRangePushA(name.c_str());
#endif
}

void pop_range() {
#ifdef GPUHPC_WITH_CUDA
  nvtxRangePop();
#endif
}

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
