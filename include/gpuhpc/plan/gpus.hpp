#pragma once
// What a plan knows of a GPU, from its maker's data sheet.
#include <cstdint>
#include <span>
#include <string>

namespace gpuhpc {

struct GpuKind {
  std::string name;           // of --plan.gpu
  std::int64_t memory = 0;    // bytes
  int sm = 0;                 // compute capability; 0: no GPU
  double fp32 = 0, tf32 = 0;  // TFLOP/s; 0: it has none
  double fp16 = 0, bf16 = 0;  // dense, sums in fp32
  double bandwidth = 0;       // GB/s of its memory
  double link = 0;            // GB/s to the next GPU, each way
  double tflops(const std::string& precision) const;

  // What is left for tensors: the CUDA context, its libraries' kernels and workspaces take some
  // hundred megabytes, gaps between blocks a share.
  static constexpr std::int64_t context = std::int64_t{768} << 20;
  static constexpr double gaps = .06;
  std::int64_t usable() const;
};

std::span<const GpuKind> gpu_kinds();
// usage_error for a name that is not there.
const GpuKind& gpu_kind(const std::string& name);
// The kind whose name the driver's ("NVIDIA A100-SXM4-40GB") is most like, with that GPU's own
// memory; throws configuration_error for one that the table does not have.
GpuKind gpu_like(const std::string& driver_name, std::int64_t memory);

}  // namespace gpuhpc
