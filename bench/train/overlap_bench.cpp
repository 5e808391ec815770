// How much of the gradients' way between ranks hides behind the backward pass: a MiniLM-shaped
// encoder with random weights, ragged documents, for each type on the wire and each accumulation
// with overlap off and on. One process per rank, as mpirun starts them:
//   scripts/mpirun.sh 2 build/release/overlap_bench [documents per rank and micro-batch = 32]
//   [steps = 5] [layers = 6] [bucket MiB = 4] bench/overlap.sh puts the ranks on two nodes with 1
//   Gbit/s between them.
// Medians over steps, milliseconds; steps with and without overlap take turns. compute: forward and
// backward of all micro-batches on the slowest rank, without and with communication beside it.
// communication: the sum over ranks with nothing beside it. exposed: how long the rank that
// computes longest still waits for the sum after its backward pass (the others wait for that rank,
// too). hidden: the rest. Before any time is printed, sums with and without overlap must be the
// same bits, and equal a plain all_reduce.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/nn/encoder.hpp"
#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/gradient_sync.hpp"

namespace gpuhpc {
namespace {

struct Settings {
  std::int64_t documents = 32, steps = 5, layers = 6, bucket_mib = 4;
};

EncoderConfig shape(const Settings& settings) {
  EncoderConfig config;
  config.vocabulary_size = 1000;
  config.hidden_size = 384, config.heads = 12, config.intermediate_size = 1536;
  config.layers = settings.layers;
  config.position_rows = 128, config.token_types = 2;
  return config;
}

class Task {
 public:
  Task(Communicator& communicator, const Settings& settings)
      : comm(communicator), encoder_(shape(settings), at::kCPU), arena(groups(), comm.size()) {
    RandomStream random(1, static_cast<std::uint64_t>(comm.rank()));
    std::vector<std::int32_t> ids, offsets{0};
    for (std::int64_t d = 0; d < settings.documents; ++d) {
      for (std::uint64_t t = 20 + random.below(77); t > 0; --t)
        ids.push_back(static_cast<std::int32_t>(random.below(1000)));
      offsets.push_back(static_cast<std::int32_t>(ids.size()));
    }
    batch_ = pack_tokens(ids, offsets, at::kCPU);
    target_ = at::randn({settings.documents, 384});
  }
  std::int64_t tokens() const { return batch_.tokens(); }
  void backward() {
    EmbeddingConfig unit;
    unit.normalise = true;
    encoder_.embed(batch_, unit).mul(target_).sum().backward();
  }
  std::vector<float> gradients() {
    const float* data = arena.gradients().const_data_ptr<float>();
    return {data, data + arena.capacity()};
  }

 private:
  std::vector<ParameterGroup> groups() {
    RandomStream random(3, 0);
    for (std::size_t i = 0; i < encoder_.parameters().size(); ++i) {
      at::Tensor value = encoder_.parameters()[i].value;
      float* data = value.mutable_data_ptr<float>();
      for (std::int64_t k = 0; k < value.numel(); ++k)
        data[k] = static_cast<float>(.04 * random.uniform() - .02) + (value.dim() == 1 ? 1.F : 0.F);
    }
    encoder_.train_top_layers(encoder_.config().layers);
    return split_by_decay("encoder", 1e-4, .01, trained_parameters(encoder_));
  }

 public:
  Communicator& comm;

 private:
  Encoder encoder_;
  PackedTokens batch_;
  at::Tensor target_;

 public:
  ParameterArena arena;
};

using Clock = std::chrono::steady_clock;
double milliseconds(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Times {
  double compute = 0;        // of the slowest rank
  double communication = 0;  // of the rank that waited least: it came last, so it waited for nobody
};

// One step; without overlap all ranks wait for each other between compute and communication, so
// that each is timed alone.
Times step(Task& task, GradientSync& sync, std::int64_t accumulation, bool overlap) {
  task.comm.barrier();
  const auto start = Clock::now();
  sync.begin();
  for (std::int64_t i = 0; i < accumulation; ++i) {
    if (i > 0) sync.keep();
    if (i + 1 == accumulation) sync.arm();
    task.backward();
  }
  const double compute = milliseconds(start);
  if (!overlap) task.comm.barrier();
  const auto computed = Clock::now();
  sync.finish();
  const double communication = milliseconds(computed);
  return {task.comm.all_reduce_value(compute, Reduce::max),
          task.comm.all_reduce_value(communication, Reduce::min)};
}

struct Pair {
  Times off, on;
};
Pair measure(Task& task, const Settings& settings, SyncOptions options, std::int64_t accumulation) {
  std::vector<double> values[4];
  for (std::int64_t i = 0; i < settings.steps; ++i)
    for (const bool overlap : {false, true}) {
      options.overlap = overlap;
      GradientSync sync(task.arena, task.comm, options);
      step(task, sync, 1, overlap);  // learns the order
      const Times times = step(task, sync, accumulation, overlap);
      values[2 * overlap].push_back(times.compute),
          values[2 * overlap + 1].push_back(times.communication);
    }
  return {{median(values[0]), median(values[1])}, {median(values[2]), median(values[3])}};
}

void check(Task& task, SyncOptions options) {
  task.arena.zero_gradients();
  task.backward();
  std::vector<float> expected = task.gradients(), found[2];
  task.comm.all_reduce(std::span<float>(expected));
  for (const bool overlap : {false, true}) {
    options.overlap = overlap;
    GradientSync sync(task.arena, task.comm, options);
    for (int i = 0; i < 2; ++i) step(task, sync, 1, overlap);
    found[overlap] = task.gradients();
  }
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(expected[i])));
    worst = std::max(worst, static_cast<double>(std::abs(expected[i] - found[1][i])));
  }
  const double limit = options.bfloat16 ? 1e-2 : 1e-6;
  if (task.comm.is_root())
    std::printf(
        "%s sums: %s with and without overlap, largest difference from a plain all_reduce %.1e of "
        "the largest gradient\n",
        options.bfloat16 ? "bf16" : "fp32",
        found[0] == found[1] ? "the same bits" : "DIFFERENT bits", worst / largest);
  if (found[0] != found[1] || !(worst <= limit * largest)) std::exit(1);
}

void run(Communicator& comm, const Settings& settings) {
  at::set_num_threads(1);
  Task task(comm, settings);
  if (comm.is_root())
    std::printf(
        "%d ranks on %d hosts, %lld parameters (%.1f MB fp32), %lld tokens per rank and "
        "micro-batch, "
        "buckets of %lld MiB\n",
        comm.size(), comm.size() / comm.node_size(),
        static_cast<long long>(task.arena.parameter_count()),
        4e-6 * static_cast<double>(task.arena.parameter_count()),
        static_cast<long long>(task.tokens()), static_cast<long long>(settings.bucket_mib));
  for (const bool bfloat16 : {false, true})
    check(task, {.bfloat16 = bfloat16, .bucket_bytes = settings.bucket_mib << 20});
  if (comm.is_root())
    std::printf("%-5s %12s %12s %12s %14s %8s %7s\n", "wire", "accumulation", "compute off",
                "compute on", "communication", "exposed", "hidden");
  for (const bool bfloat16 : {false, true})
    for (const std::int64_t accumulation : {1, 4, 8}) {
      const Pair pair =
          measure(task, settings, {.bfloat16 = bfloat16, .bucket_bytes = settings.bucket_mib << 20},
                  accumulation);
      if (comm.is_root())
        std::printf("%-5s %12lld %12.0f %12.0f %14.0f %8.0f %6.0f%%\n", bfloat16 ? "bf16" : "fp32",
                    static_cast<long long>(accumulation), pair.off.compute, pair.on.compute,
                    pair.off.communication, pair.on.communication,
                    100 * std::max(0.0, 1 - pair.on.communication / pair.off.communication));
      std::fflush(stdout);
    }
}

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) {
  const gpuhpc::MpiSession session;
  gpuhpc::Settings settings;
  std::int64_t* const places[] = {&settings.documents, &settings.steps, &settings.layers,
                                  &settings.bucket_mib};
  for (int i = 1; i < argc && i <= 4; ++i) *places[i - 1] = std::max(1LL, std::atoll(argv[i]));
  gpuhpc::run(*gpuhpc::MpiSession::world(), settings);
  return 0;
}
