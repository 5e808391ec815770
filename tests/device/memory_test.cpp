#include "gpuhpc/device/memory.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fill.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "../io/scratch_folder.hpp"
#include "gpuhpc/device/device.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;

at::Tensor bytes(std::int64_t count) {
  return at::empty({count}, at::TensorOptions().dtype(at::kByte));
}

class MemoryLimit : public ::testing::Test {
 protected:
  void SetUp() override { limit_host_memory(0); }
  void TearDown() override { limit_host_memory(0); }
};

TEST_F(MemoryLimit, CountsWhatTensorsHold) {
  const std::int64_t before = host_memory().used;
  reset_host_memory_peak();
  {
    const at::Tensor a = bytes(3 * mebibyte), b = at::zeros({mebibyte / 4});
    const std::int64_t held = host_memory().used - before;
    EXPECT_GE(held, 4 * mebibyte);
    EXPECT_LT(held, 4 * mebibyte + mebibyte / 4);
  }
  EXPECT_EQ(host_memory().used, before);
  EXPECT_GE(host_memory().peak, before + 4 * mebibyte);
  reset_host_memory_peak();
  EXPECT_EQ(host_memory().peak, before);
}

TEST_F(MemoryLimit, WhatIsKeptForTheNextTensorsGoesBackWhenThePeakStartsAgain) {
  bytes(300 * mebibyte).fill_(3);  // resident
  const std::int64_t kept = resident_memory();
  reset_host_memory_peak();
  EXPECT_LT(resident_memory(), kept - 290 * mebibyte);
}

TEST_F(MemoryLimit, RefusesAndRecovers) {
  const at::Tensor kept = at::ones({1000});
  limit_host_memory(host_memory().used + 8 * mebibyte);
  const HostMemory before = host_memory();
  EXPECT_NO_THROW(bytes(7 * mebibyte));
  try {
    bytes(9 * mebibyte);
    FAIL() << "9 MiB of 8";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("--device.memory-limit"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("9437184"), std::string::npos) << error.what();
  }
  {  // what fits alone does not fit twice
    const at::Tensor first = bytes(5 * mebibyte);
    EXPECT_THROW(bytes(5 * mebibyte), c10::OutOfMemoryError);
  }
  EXPECT_EQ(host_memory().used, before.used);
  EXPECT_NO_THROW(bytes(5 * mebibyte));
  EXPECT_EQ(kept.sum().item<float>(), 1000);
  EXPECT_THROW(at::empty({1LL << 60}, at::TensorOptions().dtype(at::kByte)),
               c10::OutOfMemoryError);  // does not overflow
}

TEST_F(MemoryLimit, OperatorsRunUnderTheLimitToo) {
  const at::Tensor a = at::ones({512, 1024});
  limit_host_memory(host_memory().used + mebibyte);
  EXPECT_THROW(a.add(1), c10::OutOfMemoryError);
  limit_host_memory(0);
  EXPECT_EQ(a.add(1).sum().item<float>(), 2.F * 512 * 1024);
}

TEST_F(MemoryLimit, ResizingKeepsTheCount) {
  const std::int64_t before = host_memory().used;
  {
    at::Tensor a = bytes(mebibyte);
    a.fill_(7);
    a.resize_({4 * mebibyte});
    EXPECT_EQ(a[mebibyte - 1].item<int>(), 7);
    EXPECT_GE(host_memory().used - before, 4 * mebibyte);
    EXPECT_LE(host_memory().used - before, 5 * mebibyte);
  }
  EXPECT_EQ(host_memory().used, before);
}

TEST_F(MemoryLimit, LargeBlocksAreUsedAgain) {
  const void* first = nullptr;
  {
    const at::Tensor a = bytes(5 * mebibyte);
    first = a.data_ptr();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
    a.fill_(1);
  }
  const at::Tensor again = bytes(5 * mebibyte - 1000), other = bytes(5 * mebibyte);
  EXPECT_EQ(again.data_ptr(), first);
  EXPECT_NE(other.data_ptr(), first);
  EXPECT_EQ(at::zeros({5 * mebibyte}, at::TensorOptions().dtype(at::kByte)).max().item<int>(),
            0);  // old contents do not come back
}

// Blocks kept for later do not stand in the way of others: 40 MiB at a time in ever other sizes,
// below a limit of 64.
TEST_F(MemoryLimit, KeptBlocksMakeRoom) {
  limit_host_memory(host_memory().used + 64 * mebibyte);
  for (std::int64_t size = 2; size <= 40; ++size) {
    std::vector<at::Tensor> held;
    for (std::int64_t i = 0; i < 40 / size; ++i) held.push_back(bytes(size * mebibyte).fill_(1));
  }
  EXPECT_LE(host_memory().peak, host_memory().limit);
}

// Four threads allocate and free at random sizes below a limit that their sum passes: never above
// it, and nothing is lost.
TEST_F(MemoryLimit, HoldsWithManyThreads) {
  const std::int64_t before = host_memory().used, limit = before + 6 * mebibyte;
  limit_host_memory(limit);
  reset_host_memory_peak();
  std::atomic<std::int64_t> refused{0}, given{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<at::Tensor> held(4);
      for (std::uint64_t i = 0, state = static_cast<std::uint64_t>(t) + 1; i < 2000; ++i) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        at::Tensor& slot = held[(state >> 33) % held.size()];
        slot.reset();
        try {
          slot = bytes(static_cast<std::int64_t>((state >> 40) % (2 * mebibyte)) + 1);
          ++given;
        } catch (const c10::OutOfMemoryError&) {
          ++refused;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(refused.load(), 0);
  EXPECT_GT(given.load(), 0);
  EXPECT_LE(host_memory().peak, limit);
  EXPECT_EQ(host_memory().used, before);
}

TEST(Apply, SetsThreadsLimitAndDeterminism) {
  const int threads = at::get_num_threads();
  const std::int64_t limit = host_memory().used + 64 * mebibyte;
  apply({.kind = "cpu", .threads = 3, .memory_limit = limit, .deterministic = true}, {false, 0, 3});
  EXPECT_EQ(at::get_num_threads(), 3);
  EXPECT_EQ(host_memory().limit, limit);
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_THROW(bytes(65 * mebibyte), c10::OutOfMemoryError);
  limit_host_memory(0);
  at::globalContext().setDeterministicAlgorithms(false, false);
  at::set_num_threads(threads);
}

// As Linux 6.1 writes them under Slurm (version 2, nested) and Docker (version 1: the path is the
// host's, only the top is there).
TEST(FreeMemory, NoMoreThanControlGroupsLeave) {
  const ScratchFolder root;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  };
  EXPECT_EQ(free_host_memory(root.path()), 0) << "it does not say";
  write("proc/meminfo", "MemTotal:       32000 kB\nMemAvailable:   9000 kB\nBuffers: 1 kB\n");
  EXPECT_EQ(free_host_memory(root.path()), 9000 * 1024);

  write("proc/self/cgroup", "0::/job_7/step_0\n");
  write("sys/fs/cgroup/job_7/step_0/memory.max", "max\n");
  write("sys/fs/cgroup/job_7/step_0/memory.current", "3000000\n");
  EXPECT_EQ(free_host_memory(root.path()), 9000 * 1024);
  write("sys/fs/cgroup/job_7/memory.max", "8000000\n");
  write("sys/fs/cgroup/job_7/memory.current", "7000000\n");
  EXPECT_EQ(free_host_memory(root.path()), 1000000);
  write("sys/fs/cgroup/job_7/memory.stat", "anon 4000000\nfile 9\ninactive_file 500000\n");
  EXPECT_EQ(free_host_memory(root.path()), 1500000);

  write("proc/self/cgroup", "5:cpu,cpuacct:/\n4:cpuset,memory:/docker/4711\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "6000000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5500000\n");
  write("sys/fs/cgroup/memory/memory.stat", "cache 7\ntotal_inactive_file 300000\n");
  EXPECT_EQ(free_host_memory(root.path()), 800000);
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "6500000\n");
  EXPECT_EQ(free_host_memory(root.path()), 0);
}

}  // namespace
}  // namespace gpuhpc
