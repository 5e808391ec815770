#pragma once
// A small model for the trainer's tests: an embedding table, mean over a document's tokens, one
// hidden layer, a path head.
#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <string>
#include <vector>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/nn/encoder.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/nn/ops.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {

constexpr std::int64_t vocabulary = 50, width = 12, classes = 5;

inline at::Tensor random_tensor(std::vector<std::int64_t> shape, std::uint64_t stream,
                                double size) {
  RandomStream random(7, stream);
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>((2 * random.uniform() - 1) * size);
  return at::from_blob(values.data(), shape, at::TensorOptions().dtype(at::kFloat))
      .clone()
      .set_requires_grad(true);
}

class TinyModel {
 public:
  struct Parameter {
    std::string name;
    at::Tensor value;
  };
  TinyModel()
      : parameters_{{"table", random_tensor({vocabulary, width}, 1, .5)},
                    {"hidden.weight", random_tensor({width, width}, 2, .5)},
                    {"hidden.bias", random_tensor({width}, 3, .1)},
                    {"head", random_tensor({classes, width}, 4, .5)}} {}
  const std::vector<Parameter>& parameters() const { return parameters_; }
  void rebind(std::size_t i, at::Tensor view) { parameters_[i].value = std::move(view); }
  at::Tensor logits(const PackedIds& batch, double dropout = 0,
                    std::uint64_t seed = 0) const {  // (B, classes)
    const std::vector<std::int64_t> ids(batch.token_ids.begin(), batch.token_ids.end()),
        offsets(batch.offsets.begin(), batch.offsets.end());
    const at::Tensor tokens = at::embedding(parameters_[0].value, at::tensor(ids));
    const at::Tensor rows = at::segment_reduce(tokens, "mean", std::nullopt, std::nullopt,
                                               at::tensor(offsets), 0, /*unsafe=*/true);
    const at::Tensor hidden =
        at::gelu(at::linear(rows, parameters_[1].value, parameters_[2].value));
    return at::linear(seeded_dropout(hidden, dropout, make_generator(at::kCPU, seed)),
                      parameters_[3].value);
  }

 private:
  std::vector<Parameter> parameters_;
};

// Ragged documents of 1 to 40 tokens; class k's documents prefer the tokens [10k, 10k + 10).
class TinyDocuments {
 public:
  explicit TinyDocuments(std::int64_t documents) : targets(documents, classes) {
    RandomStream random(11, 0);
    for (std::int64_t d = 0; d < documents; ++d) {
      const std::uint64_t label = random.below(classes), length = 1 + random.below(40);
      std::vector<std::int32_t> tokens;
      for (std::uint64_t t = 0; t < length; ++t)
        tokens.push_back(static_cast<std::int32_t>(
            random.uniform() < .6 ? 10 * label + random.below(10) : random.below(vocabulary)));
      documents_.push_back(std::move(tokens));
      for (std::int64_t k = 0; k < classes; ++k)
        targets.row(d)[static_cast<std::size_t>(k)] =
            k == static_cast<std::int64_t>(label) ? .8F : .05F;
    }
  }
  std::int64_t size() const { return std::ssize(documents_); }
  std::int64_t length(std::int64_t item) const {
    return std::ssize(documents_[static_cast<std::size_t>(item)]);
  }
  PackedIds pack(std::span<const std::int64_t> items) const {
    PackedIds packed;
    packed.offsets = {0};
    for (const std::int64_t item : items) {
      const auto& tokens = documents_[static_cast<std::size_t>(item)];
      packed.token_ids.insert(packed.token_ids.end(), tokens.begin(), tokens.end());
      packed.offsets.push_back(static_cast<std::int32_t>(packed.token_ids.size()));
      packed.documents.push_back(item);
    }
    return packed;
  }
  Matrix targets;

 private:
  std::vector<std::vector<std::int32_t>> documents_;
};

// A model, its arena and its loss, ready to train. A test may set `compute` to something around
// plain().
class TinyTask : public PackedTask {
 public:
  explicit TinyTask(std::int64_t documents, int ranks = 1, double dropout = 0)
      : PackedTask([this](const PackedIds& batch, DropoutSeed seed) {
          return compute ? compute(batch, seed) : plain(batch, seed);
        }),
        source(documents),
        arena(split_by_decay("model", 1e-2, .01, trained_parameters(model)), ranks),
        dropout_(dropout) {}
  std::int64_t size() const override { return source.size(); }
  std::int64_t cost(std::int64_t item) const override { return source.length(item); }
  PackedIds pack(std::span<const std::int64_t> items) const override { return source.pack(items); }
  LossSum plain(const PackedIds& batch, DropoutSeed seed) const {
    return {soft_target_cross_entropy(model.logits(batch, seed ? dropout_ : 0, seed.value_or(0)),
                                      gather_rows(source.targets.view(), batch.documents)),
            static_cast<double>(batch.documents.size())};
  }
  std::vector<float> weights() {
    const float* data = arena.parameters().const_data_ptr<float>();
    return {data, data + arena.capacity()};
  }
  // Without padding: the same on any number of ranks.
  std::vector<float> compact_weights() {
    std::vector<float> compact;
    const std::vector<float> all = weights();
    for (const auto& entry : arena.entries())
      compact.insert(compact.end(), all.begin() + entry.range.first,
                     all.begin() + entry.range.last);
    return compact;
  }
  std::function<LossSum(const PackedIds&, DropoutSeed)> compute;
  TinyModel model;
  TinyDocuments source;
  ParameterArena arena;

 private:
  double dropout_;
};

inline TrainOptions tiny_options() {
  TrainOptions options;
  options.epochs = 2;
  options.batch = 24;
  options.micro_batch = 0;
  options.clip = 1;
  options.precision = "fp32";
  options.rate_rule = "none";
  return options;
}

inline double mean_of_losses(std::span<const StepReport> reports) {
  double sum = 0;
  for (const StepReport& report : reports) sum += report.loss;
  return sum / static_cast<double>(reports.size());
}

}  // namespace gpuhpc
