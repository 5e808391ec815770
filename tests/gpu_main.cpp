// Tests of the label gpu: without a GPU they fail, they are never skipped.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/device/gpu.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8",
         0);  // before cuBLAS starts: tests of deterministic operators need it
  try {
    if (gpuhpc::query_cuda_devices() == 0)
      throw gpuhpc::configuration_error(
          "no GPU is visible, and these tests run on one; check nvidia-smi and "
          "CUDA_VISIBLE_DEVICES, and that this is a build with CUDA");
    const gpuhpc::GpuFacts gpu = gpuhpc::query_gpu(0);
    std::printf("on %s, %lld MiB\n", gpu.name.c_str(), static_cast<long long>(gpu.memory >> 20));
  } catch (const gpuhpc::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return RUN_ALL_TESTS();
}
