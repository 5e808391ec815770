#pragma once
// What the trainer's tests on a GPU share: an encoder that learns whole, with a bilinear head, on
// the tiny documents.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../gpu.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {

struct BertTask : PackedTask {
  BertTask(at::Device place, std::int64_t documents, std::int64_t layers = 2,
           std::int64_t hidden = 64, int ranks = 1)
      : PackedTask(
            [this](const PackedIds& batch, DropoutSeed seed) { return plain(batch, *seed); }),
        device(place),
        encoder(random_bert(layers, hidden, place, vocabulary)),
        head(class_embeddings(hidden).view(), BilinearStart::identity, 1, place),
        source(documents) {
    encoder.train_top_layers(-1);
    auto slots = trained_parameters(encoder);
    for (auto& slot : trained_parameters(head)) slots.push_back(std::move(slot));
    arena.emplace(split_by_decay("model", 1e-3, .01, slots), ranks);
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
    return {soft_target_cross_entropy(
                head.logits(rows),
                to_device(gather_rows(source.targets.view(), batch.documents), device)),
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
  bool sharded = false;
  double loss(std::size_t step) const { return reports.at(step).loss; }
  double last() const {
    return (reports.end()[-1].loss + reports.end()[-2].loss + reports.end()[-3].loss) / 3;
  }
};

struct Surroundings {
  Communicator* comm = nullptr;  // none: one rank
  ParallelOptions parallel = {};
  std::filesystem::path checkpoints = {};
  std::function<bool()> stop = {};
};

inline Outcome train(BertTask& task, const TrainOptions& options, const Surroundings& around = {}) {
  const auto alone = make_single_communicator();
  Outcome outcome;
  task.precision = options.precision;
  Trainer trainer(*task.arena, task, options,
                  {.comm = around.comm != nullptr ? *around.comm : *alone,
                   .parallel = around.parallel,
                   .checkpoints = around.checkpoints,
                   .task = {"f1", {}},
                   .stop_requested = around.stop,
                   .report = [&](const StepReport& r) { outcome.reports.push_back(r); }});
  trainer.run();
  outcome.weights = task.arena->parameters().detach().to(at::kCPU);
  outcome.sharded = trainer.sync().sharded();
  return outcome;
}

inline TrainOptions four_epochs(const std::string& precision) {
  TrainOptions options = tiny_options();
  options.epochs = 4;
  options.precision = precision;
  return options;
}

}  // namespace gpuhpc
