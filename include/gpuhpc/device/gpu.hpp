#pragma once
// What the CUDA runtime says of the GPUs that this process sees. Compiled with the rest, never run
// on a GPU yet.
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace gpuhpc {

struct GpuFacts {
  // "NVIDIA RTX A6000", "0000:3b:00.0": the same GPU has the same bus number in every process of
  // its host
  std::string name, bus;
  // That of the slice, where MIG cuts the GPU up: slices share the bus number.
  std::string uuid;
  std::int64_t memory = 0;  // bytes, all of it
  // The same for ranks that drive one GPU, or one slice of it.
  std::string identity() const { return bus + ", " + uuid; }
};
// Throws configuration_error where the GPU cannot be asked, and in a program built without CUDA.
GpuFacts query_gpu(int index);

// Whether this GPU multiplies bf16 and has LibTorch's flash attention: compute capability 8.0 and
// later. True where it cannot be asked: plans are made for other machines, too.
bool multiplies_bf16(int index);
// Throws configuration_error where `precision`, the value of `option`, is bf16 on a GPU without:
// it would be computed all the same, many times slower.
void check_gpu_precision(const std::string& option, const std::string& precision, bool has_bf16);

// Of the visible GPUs, the pairs that reach each other's memory without the host.
struct PeerAccess {
  int direct = 0, pairs = 0;
};
PeerAccess query_peer_access(int gpus);

// Named ranges of this thread on the timeline of Nsight Systems (NVTX). Nothing in a program
// without CUDA, next to nothing where nobody watches.

void push_range(const std::string& name);
void pop_range();  // the range of this thread pushed last

// How busy a GPU is, as NVIDIA's management library tells. The library comes with the driver: it is
// opened at run time, nothing is linked.

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
