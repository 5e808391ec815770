// Training on a GPU beside the processor's fp32: every precision, the loss scale, a step that runs
// out of memory, the same bits twice.
#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "bert_task.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/device/memory.hpp"

namespace gpuhpc {
namespace {

TEST(TrainerOnGpu, EveryPrecisionFollowsTheProcessorsFullPrecision) {
  BertTask here(at::kCPU, 240);
  const Outcome wanted = train(here, four_epochs("fp32"));
  ASSERT_LT(wanted.last(), wanted.loss(0) - .3);
  for (const auto& [precision, early, late] : {std::tuple{"fp32", 1e-5, 1e-3},
                                               {"tf32", 1e-3, 1e-2},
                                               {"bf16", 2e-3, 1e-2},
                                               {"fp16", 1e-3, 1e-2}}) {
    BertTask there(gpu(), 240);
    const Outcome ours = train(there, four_epochs(precision));
    ASSERT_EQ(ours.reports.size(), wanted.reports.size());
    for (std::size_t step = 0; step < 10; ++step)
      EXPECT_NEAR(ours.loss(step) / wanted.loss(step), 1, early)
          << precision << ", step " << step + 1;
    EXPECT_NEAR(ours.last() / wanted.last(), 1, late) << precision;
    EXPECT_TRUE(std::ranges::none_of(ours.reports, [](const StepReport& r) { return r.skipped; }))
        << precision;
    // Times are those of the GPU, not of the host that waits for it where it reads.
    for (const StepReport& r : ours.reports) {
      EXPECT_GT(r.compute_seconds, r.exposed_communication_seconds) << precision;
      EXPECT_GE(std::min(r.data_seconds, r.update_seconds), 0) << precision;
    }
    std::printf("%s: last loss %.5f, the processor's fp32 %.5f\n", precision, ours.last(),
                wanted.last());
  }
}

TEST(TrainerOnGpu, ALossScaleThatIsTooLargeIsHalvedAndTrainingGoesOn) {
  TrainOptions options = four_epochs("fp16");
  options.loss_scale = std::ldexp(1.0, 30);
  BertTask task(gpu(), 240);
  const Outcome outcome = train(task, options);
  EXPECT_TRUE(outcome.reports.front().skipped);
  EXPECT_FALSE(outcome.reports.back().skipped);
  EXPECT_LT(outcome.reports.back().loss_scale, options.loss_scale);
  EXPECT_LT(outcome.last(), std::log(5.0) - .2);
}

// The limit lies between what 8 and what 64 documents at once need.
TEST(TrainerOnGpu, OutOfMemoryHalvesTheMicroBatchAndGivesTheSameAnswer) {
  const auto run = [](std::int64_t micro_batch, std::int64_t limit) {
    at::accelerator::emptyCache();
    limit_cuda_memory(limit, 0);
    at::accelerator::resetPeakStats(0);
    TrainOptions options = tiny_options();
    options.epochs = 2, options.batch = 64, options.micro_batch = micro_batch;
    BertTask task(gpu(), 128, 4, 1024);
    Outcome outcome = train(task, options);
    return std::pair{std::move(outcome), at::accelerator::getDeviceStats(0).reserved_bytes[0].peak};
  };
  at::ones({1}, gpu());  // the allocator starts with the first tensor
  const std::int64_t all = query_gpu(0).memory;
  const auto [whole, large] = run(64, all);
  const auto [pieces, small] = run(8, all);
  ASSERT_GT(large, small + (small >> 3));
  const auto [starved, peak] = run(64, (large + small) / 2);
  limit_cuda_memory(all, 0);
  EXPECT_LT(starved.reports.back().micro_batch, 64);
  EXPECT_LE(peak, (large + small) / 2);
  ASSERT_EQ(starved.reports.size(), whole.reports.size());
  for (std::size_t step = 0; step < whole.reports.size(); ++step) {
    EXPECT_EQ(starved.reports[step].documents, 64);
    EXPECT_NEAR(starved.loss(step) / whole.loss(step), 1, 1e-4) << step;
    EXPECT_NEAR(pieces.loss(step) / whole.loss(step), 1, 1e-4) << step;
  }
}

TEST(TrainerOnGpu, OptimizersFollowTheProcessors) {
  for (const std::string kind : {"adamw", "lamb", "adafactor"}) {
    TrainOptions options = four_epochs("fp32");
    options.optimizer = kind;
    BertTask here(at::kCPU, 120), there(gpu(), 120);
    const Outcome wanted = train(here, options), ours = train(there, options);
    ASSERT_EQ(ours.reports.size(), wanted.reports.size());
    for (std::size_t step = 0; step < 5; ++step)
      EXPECT_NEAR(ours.loss(step) / wanted.loss(step), 1, 1e-4) << kind << ", step " << step + 1;
  }
}

// Stopped in the middle, it ends with the bits of the training that was not.
TEST(TrainerOnGpu, AStoppedTrainingGoesOnToTheSameBits) {
  const Deterministic bits;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("gpuhpc-resume-" + std::to_string(::getpid()));
  const TrainOptions options = four_epochs("bf16");
  BertTask whole(gpu(), 120), begun(gpu(), 120), resumed(gpu(), 120);
  whole.dropout = begun.dropout = resumed.dropout = .1;
  const Outcome wanted = train(whole, options);
  std::int64_t steps = 0;
  Surroundings around{.checkpoints = folder, .stop = [&] { return ++steps == 7; }};
  EXPECT_THROW(train(begun, options, around), Error);
  around.stop = {};
  const Outcome rest = train(resumed, options, around);
  EXPECT_EQ(rest.reports.size() + 7, wanted.reports.size());
  EXPECT_TRUE(rest.weights.equal(wanted.weights));
  std::filesystem::remove_all(folder);
}

TEST(TrainerOnGpu, DeterministicTrainingGivesTheSameBitsTwice) {
  const Deterministic bits;
  for (const std::string precision : {"fp32", "bf16"}) {
    at::Tensor weights[2];
    for (at::Tensor& result : weights) {
      BertTask task(gpu(), 240);
      task.dropout = .1;
      result = train(task, four_epochs(precision)).weights;
    }
    EXPECT_TRUE(weights[0].equal(weights[1])) << precision;
  }
}

}  // namespace
}  // namespace gpuhpc
