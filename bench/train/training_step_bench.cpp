// The training step of a sequence classifier, as bench/peers/training_step.py drives it: encoder
// (everything learns), pooler, linear head, cross-entropy, gradient norm clipped at 1, AdamW.
//   training_step_bench MODEL BATCHES.safetensors PRECISION THREADS GRADIENTS.safetensors [cuda]
//   [checkpoint]
// cuda: on GPU 0, where the shares of forward and backward are what the host took to start them.
// checkpoint: layers are computed again. MODEL: a Hugging Face folder with a pooler,
// "classifier.weight" and "classifier.bias". BATCHES: int32 "token_ids" (T), "offsets" (documents +
// 1), "batches" (batches + 1; documents), "labels" (documents). The gradients of the first batch,
// before any update, go to GRADIENTS; then each line read from standard input makes one pass over
// the batches, answered by one JSON line: the seconds of the pass (by the clock, and of the
// processor), of its parts, and the mean loss of each batch.
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "../answer.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/io/safetensors.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/nn/ops.hpp"
#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/optimizer.hpp"

namespace gpuhpc {
namespace {

constexpr double rate = 5e-5, decay = .01, clip = 1;

// Of all threads of this process: what counts on a machine that is busy with other work.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<std::int32_t> integers(const SafeTensors& file, const char* name) {
  const TensorView* view = file.find(name);
  if (view == nullptr || view->type != TensorType::int32)
    throw input_error("{}: int32 \"{}\" is missing", file.path().string(), name);
  std::vector<std::int32_t> values(static_cast<std::size_t>(view->count()));
  std::memcpy(values.data(), view->data.data(), view->data.size());
  return values;
}

struct Batch {
  PackedTokens tokens;
  at::Tensor targets;  // (documents, classes), one-hot
};

struct LinearHead : HeadParameters {
  LinearHead(const ModelWeights& weights, at::Device device) {
    for (const char* name : {"classifier.weight", "classifier.bias"}) {
      const TensorView& view = weights.at(name);
      at::Tensor value = at::empty(view.shape, at::TensorOptions().dtype(at::kFloat));
      const std::vector<float> floats = to_floats(view);
      std::memcpy(value.mutable_data_ptr<float>(), floats.data(), floats.size() * sizeof(float));
      parameters_.push_back({name, value.to(device).set_requires_grad(true)});
    }
  }
  std::int64_t classes() const { return parameters_[1].value.size(0); }
  at::Tensor logits(const at::Tensor& documents) const {
    return mixed_linear(documents, parameters_[0].value, parameters_[1].value, at::kFloat);
  }
};

std::vector<Batch> read_batches(const std::string& path, std::int64_t classes, at::Device device) {
  const SafeTensors file(path);
  const auto ids = integers(file, "token_ids"), offsets = integers(file, "offsets"),
             batches = integers(file, "batches"), labels = integers(file, "labels");
  std::vector<Batch> result;
  for (std::size_t b = 0; b + 1 < batches.size(); ++b) {
    const std::int32_t first = batches[b], last = batches[b + 1],
                       start = offsets[static_cast<std::size_t>(first)];
    std::vector<std::int32_t> own;
    for (std::int32_t d = first; d <= last; ++d)
      own.push_back(offsets[static_cast<std::size_t>(d)] - start);
    Batch batch{pack_tokens(std::span(ids).subspan(static_cast<std::size_t>(start),
                                                   static_cast<std::size_t>(own.back())),
                            own, device),
                at::zeros({last - first, classes})};
    for (std::int32_t d = first; d < last; ++d)
      batch.targets[d - first][labels[static_cast<std::size_t>(d)]] = 1;
    batch.targets = batch.targets.to(device);
    result.push_back(std::move(batch));
  }
  return result;
}

struct Model {
  Model(const std::string& folder, const ForwardOptions& options, at::Device device)
      : encoder(load_encoder(folder, device).encoder),
        head(ModelWeights(folder), device),
        forward(options) {
    encoder.train_top_layers(-1);
    std::vector<ParameterSlot> slots = trained_parameters(encoder);
    for (ParameterSlot& slot : trained_parameters(head)) slots.push_back(std::move(slot));
    arena.emplace(split_by_decay("all", rate, decay, slots));
    optimizer.emplace(*arena, OptimizerOptions{});
  }
  at::Tensor loss(const Batch& batch) const {
    return soft_target_cross_entropy(
        head.logits(encoder.embed(batch.tokens, {.pooling = Pooling::pooler}, forward)),
        batch.targets);
  }
  Encoder encoder;
  LinearHead head;
  ForwardOptions forward;
  std::optional<ParameterArena> arena;
  std::optional<AdamW> optimizer;
};

void write_gradients(Model& model, const Batch& batch, const std::string& path) {
  model.arena->zero_gradients();
  model.loss(batch).div(static_cast<double>(batch.tokens.documents())).backward();
  std::vector<TensorView> views;
  const at::Tensor on_host = model.arena->gradients().to(at::kCPU);
  const float* gradients = on_host.const_data_ptr<float>();
  for (const ParameterArena::Entry& entry : model.arena->entries())
    views.push_back({entry.name, TensorType::float32, entry.shape,
                     std::as_bytes(std::span(gradients + entry.range.first,
                                             static_cast<std::size_t>(entry.range.size())))});
  write_safetensors(path, views);
  model.arena->zero_gradients();
}

void pass(Model& model, const std::vector<Batch>& batches) {
  std::vector<double> losses;
  double forward = 0, backward = 0, update = 0;
  reset_host_memory_peak();
  const double start = now(), processor = processor_seconds();
  for (const Batch& batch : batches) {
    const double begin = now();
    model.arena->zero_gradients();
    const at::Tensor loss = model.loss(batch);
    const double middle = now();
    loss.backward();
    const double end = now();
    const auto documents = static_cast<double>(batch.tokens.documents());
    losses.push_back(loss.item<double>() / documents);
    const double norm = gradient_norm(*model.arena, {0, model.arena->capacity()}) / documents;
    model.optimizer->step(1, clip_factor(norm, clip) / documents);
    forward += middle - begin;
    backward += end - middle;
    update += now() - end;
  }
  if (model.encoder.device().is_cuda()) at::accelerator::synchronizeDevice(0);
  fmt::print(
      "{{\"seconds\": {:.6f}, \"processor\": {:.6f}, \"forward\": {:.6f}, \"backward\": {:.6f}, "
      "\"update\": {:.6f}, \"peak_bytes\": {}, \"losses\": [{:.7g}]}}\n",
      now() - start, processor_seconds() - processor, forward, backward, update, host_memory().peak,
      fmt::join(losses, ", "));
  std::fflush(stdout);
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 5)
    throw usage_error(
        "training_step_bench MODEL BATCHES.safetensors PRECISION THREADS GRADIENTS.safetensors "
        "[cuda] [checkpoint]");
  const auto asked = [&](const char* word) {
    return std::find(arguments.begin() + 5, arguments.end(), word) != arguments.end();
  };
  at::set_num_threads(std::stoi(arguments[3]));
  limit_host_memory(0);
  ForwardOptions forward;
  forward.compute = arguments[2] == "bf16"   ? at::kBFloat16
                    : arguments[2] == "fp16" ? at::kHalf
                                             : at::kFloat;
  forward.checkpoint_layers = asked("checkpoint");
  const at::Device device = torch_device({asked("cuda"), 0, 1});
  Model model(arguments[0], forward, device);
  const std::vector<Batch> batches = read_batches(arguments[1], model.head.classes(), device);
  write_gradients(model, batches.front(), arguments[4]);
  fmt::print("{{\"ready\": true}}\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) pass(model, batches);
  return 0;
}

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) { return gpuhpc::answer(argc, argv, gpuhpc::run); }
