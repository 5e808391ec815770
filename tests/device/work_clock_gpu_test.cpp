#include <gpuhpc/device/work_clock.hpp>

#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <chrono>

namespace gpuhpc {
namespace {

// The host hands the products out in a moment: a clock of the host would say that nothing happened
// between the first two marks. The host's time around a GPU that is waited for is what they took.
TEST(WorkClockOnGpu, TellsWhatTheGpuTookNotTheHost) {
  using Host = std::chrono::steady_clock;
  const at::Tensor matrix =
      at::randn({8192, 8192}, at::TensorOptions().device(at::Device(at::kCUDA, 0)));
  at::Tensor product = at::mm(matrix, matrix);  // cuBLAS starts here
  WorkClock clock(matrix.device());
  for (int round = 0; round < 2; ++round) {  // the second one with the events of the first
    clock.restart();
    at::accelerator::synchronizeDevice(0);
    const auto start = Host::now();
    const WorkClock::Mark first = clock.mark();
    for (int i = 0; i < 8; ++i) at::mm_out(product, matrix, matrix);
    const WorkClock::Mark second = clock.mark(), third = clock.mark();
    at::accelerator::synchronizeDevice(0);
    const double whole = std::chrono::duration<double>(Host::now() - start).count();
    EXPECT_LE(clock.between(first, second), 1.02 * whole);
    EXPECT_GE(clock.between(first, second), .8 * whole);
    EXPECT_LE(clock.between(second, third), .1 * whole);
    EXPECT_NEAR(clock.between(first, second) + clock.between(second, third),
                clock.between(first, third), 1e-4);  // events count half microseconds
  }
}

}  // namespace
}  // namespace gpuhpc
