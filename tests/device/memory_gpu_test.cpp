#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "gpuhpc/device/device.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/device/memory.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;

at::Tensor bytes(std::int64_t count) {
  return at::empty({count}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
}

TEST(Gpu, SaysWhatItIs) {
  const GpuFacts facts = query_gpu(0);
  EXPECT_FALSE(facts.name.empty());
  EXPECT_NE(facts.bus.find(':'), std::string::npos) << facts.bus;
  EXPECT_GT(facts.memory, 1024 * mebibyte);
  EXPECT_GE(query_cuda_devices(), 1);
  EXPECT_LE(query_peer_access(query_cuda_devices()).direct,
            query_peer_access(query_cuda_devices()).pairs);
}

TEST(GpuMemoryLimit, RefusesAndRecovers) {
  const at::Tensor kept = at::ones({1000}, at::TensorOptions().device(at::kCUDA));
  limit_cuda_memory(at::accelerator::getDeviceStats(0).reserved_bytes[0].current + 512 * mebibyte,
                    0);
  EXPECT_NO_THROW(bytes(256 * mebibyte));
  EXPECT_THROW(bytes(1024 * mebibyte), c10::OutOfMemoryError);
  EXPECT_NO_THROW(bytes(256 * mebibyte));
  EXPECT_EQ(kept.sum().item<float>(), 1000);
  limit_cuda_memory(query_gpu(0).memory, 0);
  EXPECT_NO_THROW(bytes(1024 * mebibyte));
}

}  // namespace
}  // namespace gpuhpc
