// A long training of a tiny task, with checkpoints, validation and all logs: what a step takes,
// what the process holds and how large a checkpoint is must not grow with the steps.
//   long_run_bench FOLDER [STEPS]
// Prints a table: after each tenth of the steps the mean time of its steps, resident memory, and
// the bytes of the newest checkpoint.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <cstdio>

#include "../answer.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

constexpr std::int64_t items = 1000, width = 64;

// Least squares.
class Regression final : public Task {
 public:
  std::int64_t size() const override { return items; }
  std::int64_t cost(std::int64_t) const override { return width; }
  LossSum loss(std::span<const std::int64_t> batch, DropoutSeed) override {
    const at::Tensor rows = at::tensor(std::vector<std::int64_t>(batch.begin(), batch.end()));
    const at::Tensor found = at::linear(inputs_.index_select(0, rows), weights);
    return {(found - outputs_.index_select(0, rows)).square().sum(),
            static_cast<double>(batch.size())};
  }
  at::Tensor weights = at::randn({width, width}).set_requires_grad(true);

 private:
  at::Tensor inputs_ = at::randn({items, width}),
             outputs_ = at::linear(inputs_, at::randn({width, width}));
};

std::uintmax_t newest_checkpoint(const fs::path& folder) {
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("step-") && entry.path() > newest &&
        fs::exists(entry.path() / "manifest.json"))
      newest = entry.path();
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(newest)) bytes += entry.file_size();
  return bytes;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw usage_error("long_run_bench FOLDER [STEPS]");
  const fs::path folder = arguments[0];
  const std::int64_t steps = arguments.size() > 1 ? std::stoll(arguments[1]) : 200'000,
                     tenth = steps / 10;
  at::set_num_threads(1);
  limit_host_memory(0);
  const auto comm = make_single_communicator();
  Regression task;
  ParameterArena arena({{"weights", 1e-3, .01, {{"weights", task.weights, [&](at::Tensor view) {
                                                   task.weights = std::move(view);
                                                 }}}}});
  TrainOptions options;
  options.batch = 32, options.micro_batch = 8, options.max_steps = steps, options.validation = .1;
  options.precision = "fp32", options.checkpoint_every = tenth / 2;
  create_folder(folder / "stage");
  double seconds = 0;
  fmt::print("{:>10} {:>16} {:>14} {:>14} {:>12}\n", "steps", "us per step", "resident KiB",
             "tensors bytes", "checkpoint");
  const auto report = [&](const StepReport& r) {
    seconds += r.step_seconds;
    if (r.step % tenth != 0) return;
    fmt::print("{:>10} {:>16.1f} {:>14} {:>14} {:>12}\n", r.step,
               1e6 * seconds / static_cast<double>(tenth), resident_memory() >> 10,
               host_memory().used, newest_checkpoint(folder / "checkpoints"));
    std::fflush(stdout);
    seconds = 0;
  };
  Trainer(arena, task, options,
          {.comm = *comm,
           .checkpoints = folder / "checkpoints",
           .folder = folder / "stage",
           .run_folder = folder,
           .stage = "long",
           .report = report})
      .run();
  return 0;
}

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) { return gpuhpc::answer(argc, argv, gpuhpc::run); }
