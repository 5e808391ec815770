// Training on a GPU beside the processor's fp32: every precision, the loss scale, a step that runs
// out of memory, the same bits twice.
#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "../gpu.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

// An encoder that learns whole, with a bilinear head, on the tiny documents.
struct BertTask : PackedTask {
  BertTask(at::Device place, std::int64_t documents, std::int64_t layers = 2,
           std::int64_t hidden = 64)
      : PackedTask(
            [this](const PackedIds& batch, DropoutSeed seed) { return plain(batch, *seed); }),
        device(place),
        encoder(random_bert(layers, hidden, place, vocabulary)),
        head(class_embeddings(hidden).view(), BilinearStart::identity, 1, place),
        source(documents) {
    encoder.train_top_layers(-1);
    auto slots = trained_parameters(encoder);
    for (auto& slot : trained_parameters(head)) slots.push_back(std::move(slot));
    arena.emplace(split_by_decay("model", 1e-3, .01, slots));
  }
  static Matrix class_embeddings(std::int64_t hidden) {
    Matrix rows(classes, hidden);
    RandomStream random(3, 1);
    for (float& value : rows.values) value = static_cast<float>(.1 * (2 * random.uniform() - 1));
    return rows;
  }
  std::int64_t size() const override { return source.size(); }
  std::int64_t cost(std::int64_t item) const override { return source.length(item); }
  PackedIds pack(std::span<const std::int64_t> items) const override { return source.pack(items); }
  LossSum plain(const PackedIds& batch, std::uint64_t seed) {
    ForwardOptions options;
    options.compute = precision == "bf16"   ? at::kBFloat16
                      : precision == "fp16" ? at::kHalf
                                            : at::kFloat;
    options.tf32 = precision == "tf32";
    if (dropout > 0) {
      options.hidden_dropout = options.attention_dropout = dropout;
      options.generator = make_generator(device, seed);
      at::Generator own = at::globalContext().defaultGenerator(device);  // attention draws from it
      own.set_current_seed(seed);
    }
    const at::Tensor rows = encoder.embed(pack_tokens(batch.token_ids, batch.offsets, device),
                                          {Pooling::mean, false, 512}, options);
    return {soft_target_cross_entropy(head.logits(rows),
                                      gather_rows(source.targets.view(), batch.documents, device)),
            static_cast<double>(batch.size())};
  }
  double dropout = 0;
  std::string precision = "fp32";
  at::Device device;
  Encoder encoder;
  BilinearHead head;
  TinyDocuments source;
  std::optional<ParameterArena> arena;
};

struct Outcome {
  std::vector<StepReport> reports;
  at::Tensor weights;
  double loss(std::size_t step) const { return reports.at(step).loss; }
  double last() const {
    return (reports.end()[-1].loss + reports.end()[-2].loss + reports.end()[-3].loss) / 3;
  }
};

Outcome train(BertTask& task, const TrainOptions& options) {
  const auto comm = make_single_communicator();
  Outcome outcome;
  task.precision = options.precision;
  Trainer trainer(*task.arena, task, options, {.comm = *comm, .report = [&](const StepReport& r) {
                                                 outcome.reports.push_back(r);
                                               }});
  trainer.run();
  outcome.weights = task.arena->parameters().detach().to(at::kCPU);
  return outcome;
}

TrainOptions four_epochs(const std::string& precision) {
  TrainOptions options = tiny_options();
  options.epochs = 4;
  options.precision = precision;
  return options;
}

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
