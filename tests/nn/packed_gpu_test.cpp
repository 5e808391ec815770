// Batches come to the GPU on a stream of their own (src/nn/packed.cpp). Two things can go wrong:
// what computes reads a batch before it is there, or the memory of a batch that the host is done
// with goes to the next one while the GPU has yet to read it.
#include <gpuhpc/nn/packed.hpp>

#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "../gpu.hpp"

namespace gpuhpc {
namespace {

// Documents of one to three tokens; every round has other lengths and other ids.
struct HostBatch {
  HostBatch(std::int32_t documents, std::int32_t round) {
    for (std::int32_t d = 0; d < documents; ++d)
      offsets.push_back(offsets.back() + 1 + (d + round) % 3);
    for (std::int32_t t = 0; t < offsets.back(); ++t)
      ids.push_back((t * 31 + round * 7919) % 30000), segments.push_back((t + round) % 2);
  }
  std::vector<std::int32_t> ids, segments, offsets{0};
};

// What the GPU read of a batch, in the order of its own work.
struct Seen {
  explicit Seen(const PackedTokens& batch)
      : ids(batch.token_ids.clone()),
        positions(batch.position_ids.clone()),
        segments(batch.segment_ids.clone()),
        cumulative(batch.cumulative.clone()) {}
  at::Tensor ids, positions, segments, cumulative;
};

Seen send(const HostBatch& host) {
  return Seen(pack_tokens(host.ids, host.offsets, gpu(), host.segments));  // the batch dies here
}

void expect_unharmed(const Seen& seen, const HostBatch& host, int round) {
  const PackedTokens wanted = pack_tokens(host.ids, host.offsets, at::kCPU, host.segments);
  EXPECT_TRUE(at::equal(seen.ids.cpu(), wanted.token_ids)) << round;
  EXPECT_TRUE(at::equal(seen.positions.cpu(), wanted.position_ids)) << round;
  EXPECT_TRUE(at::equal(seen.segments.cpu(), wanted.segment_ids)) << round;
  EXPECT_TRUE(at::equal(seen.cumulative.cpu(), wanted.cumulative)) << round;
}

TEST(PackedOnGpu, BatchesSurviveAGpuThatIsFarBehind) {
  const at::Tensor matrix = at::randn({8192, 8192}, at::TensorOptions().device(gpu()));
  at::Tensor product = at::mm(matrix, matrix);
  {  // memory for all rounds, or asking the driver for it would wait for the GPU
    std::vector<Seen> rounds;
    for (std::int32_t round = 0; round < 48; ++round) rounds.push_back(send({500, round}));
  }
  at::accelerator::synchronizeDevice(0);
  for (int i = 0; i < 40; ++i) at::mm_out(product, matrix, matrix);  // about a second
  std::vector<Seen> seen;
  for (std::int32_t round = 0; round < 48; ++round) seen.push_back(send({500, round}));
  EXPECT_FALSE(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(gpu()).query())
      << "the GPU was not behind: nothing is shown";
  for (std::int32_t round = 0; round < 48; ++round)
    expect_unharmed(seen[static_cast<std::size_t>(round)], {500, round}, round);
}

// Rows that a GPU has not computed yet, and memory of theirs that it writes again afterwards.
TEST(PackedOnGpu, RowsComeToTheHostWhenTheyAreThere) {
  const at::Tensor matrix =
      at::rand({8192, 8192}, at::TensorOptions().device(gpu()).dtype(at::kHalf)).div_(4096);
  at::Tensor product = at::mm(matrix, matrix);
  for (int i = 0; i < 100; ++i) at::mm_out(product, matrix, matrix);
  HostCopy copy(product.t());
  product.zero_();
  EXPECT_TRUE(at::equal(copy.wait(), at::mm(matrix, matrix).t().to(at::kCPU, at::kFloat)));
}

// Copies of many megabytes on an idle GPU: what reads them is handed out while they are under way.
TEST(PackedOnGpu, WhatComputesWaitsForLargeBatches) {
  for (std::int32_t round = 0; round < 4; ++round) {
    const HostBatch host(1 << 20, round);
    expect_unharmed(send(host), host, round);
  }
}

}  // namespace
}  // namespace gpuhpc
