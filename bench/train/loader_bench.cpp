// What a training waits for its data when reading and packing are slow: MiniLM on documents of 20
// to 128 tokens with a row of 531 targets each, all packed and gathered again and again, as often
// as the first column says, with and without threads that do it ahead.
//   loader_bench MODEL [UPDATES]
// Prints a table: milliseconds that packing takes in an update, how long an update takes, and the
// share of the training that went into waiting for data. Losses must be the same in all rows.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <random>

#include "../answer.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t documents = 960, classes = 531;

class SlowTask final : public PackedTask {
 public:
  SlowTask(Loss loss, Targets targets, int times)
      : PackedTask(std::move(loss), std::move(targets)), times_(times) {
    std::mt19937 random(7);
    for (std::int64_t i = 0; i < documents; ++i) {
      auto& ids = ids_.emplace_back(20 + random() % 109);
      for (std::int32_t& id : ids) id = static_cast<std::int32_t>(1000 + random() % 20000);
    }
  }
  std::int64_t size() const override { return documents; }
  std::int64_t cost(std::int64_t item) const override {
    return std::ssize(ids_[static_cast<std::size_t>(item)]);
  }
  PackedIds pack(std::span<const std::int64_t> items) const override {
    PackedIds packed;
    for (const std::int64_t item : items)
      packed.add(item, ids_[static_cast<std::size_t>(item)], {});
    return packed;
  }
  std::any load(std::span<const std::int64_t> items,
                std::optional<std::int64_t> step) const override {
    const auto start = std::chrono::steady_clock::now();
    std::any loaded;
    for (int i = 0; i < times_; ++i) loaded = PackedTask::load(items, step);
    nanoseconds += (std::chrono::steady_clock::now() - start).count();
    return loaded;
  }
  mutable std::atomic<std::int64_t> nanoseconds = 0;

 private:
  std::vector<std::vector<std::int32_t>> ids_;
  int times_;
};

double train(const std::string& folder, int times, std::int64_t workers, std::int64_t updates) {
  LoadedEncoder model = load_encoder(folder, at::kCPU);
  Encoder& encoder = model.encoder;
  Matrix heads(classes, encoder.config().hidden_size), wanted(documents, classes);
  std::mt19937 random(11);
  for (float& value : heads.values) value = static_cast<float>(random() % 1000) / 5000 - .1F;
  for (std::int64_t i = 0; i < documents; ++i) wanted.row(i)[random() % classes] = 1;
  BilinearHead head(heads.view(), BilinearStart::identity, 1, at::kCPU);
  encoder.train_top_layers(-1);
  std::vector<ParameterSlot> slots = trained_parameters(encoder);
  for (ParameterSlot& slot : trained_parameters(head)) slots.push_back(std::move(slot));
  ParameterArena arena(split_by_decay("all", 2e-5, .01, slots));
  SlowTask task(
      [&](const TargetedIds& batch, DropoutSeed) {
        return LossSum{
            soft_target_cross_entropy(head.logits(encoder.embed(pack_tokens(batch, at::kCPU),
                                                                {.pooling = Pooling::mean}, {})),
                                      batch.targets[0]),
            static_cast<double>(batch.size())};
      },
      [&](std::span<const std::int64_t> of) { return std::vector{gather_rows(wanted.view(), of)}; },
      times);
  TrainOptions options;
  options.batch = 32, options.micro_batch = 8, options.max_steps = updates;
  options.precision = "fp32";
  const auto comm = make_single_communicator();
  double seconds = 0, data = 0, loss = 0;
  Trainer(arena, task, options,
          {.comm = *comm,
           .loader = {.workers = workers},
           .report =
               [&](const StepReport& r) {
                 if (r.step > 1) seconds += r.step_seconds, data += r.data_seconds;
                 loss = r.loss;
               }})
      .run();
  const auto steps = static_cast<double>(updates - 1);
  fmt::print("{:>6} {:>8} {:>14.2f} {:>12.1f} {:>11.2f}% {:>12.6f}\n", times, workers,
             1e-6 * static_cast<double>(task.nanoseconds) / static_cast<double>(updates),
             1e3 * seconds / steps, 100 * data / seconds, loss);
  return loss;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw usage_error("loader_bench MODEL [UPDATES]");
  const std::int64_t updates = arguments.size() > 1 ? std::stoll(arguments[1]) : 20;
  limit_host_memory(0);
  fmt::print("{:>6} {:>8} {:>14} {:>12} {:>12} {:>12}\n", "times", "workers", "packing, ms",
             "update, ms", "waiting", "loss");
  std::vector<double> losses;
  for (const int times : {1, 10, 1000})
    for (const std::int64_t workers : {0, 1})
      losses.push_back(train(arguments[0], times, workers, updates));
  for (const double loss : losses)  // as bits: what is loaded ahead is the same
    if (loss != losses.front())
      throw Error(ExitCode::internal, fmt::format("losses differ: {} and {}", loss, losses[0]));
  return 0;
}

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) { return gpuhpc::answer(argc, argv, gpuhpc::run); }
