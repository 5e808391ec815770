// What an update costs beside forward and backward, on the student's 5.4 million parameters: norm,
// AdamW, zeroing, and for comparison a plain loop of AdamW. Before any speed is printed, both must
// give the same weights.
//   optimizer_bench --benchmark_counters_tabular=true      Argument: threads. Counter: parameters a
//   second.
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "gpuhpc/train/optimizer.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t parameters = 5'406'336;  // three MiniLM layers and 213 class vectors

struct Problem {
  Problem()
      : arena({{"all",
                1e-3,
                .01,
                {{"all", at::zeros({parameters}).set_requires_grad(true), [](at::Tensor) {}}}}}),
        optimizer(arena, {}) {
    float* values = arena.parameters().mutable_data_ptr<float>();
    float* gradients = arena.gradients().mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < parameters; ++i) {
      values[i] = static_cast<float>(std::sin(.1 * static_cast<double>(i)));
      gradients[i] = static_cast<float>(std::cos(.3 * static_cast<double>(i)));
    }
  }
  ParameterArena arena;
  AdamW optimizer;
};

// Loshchilov & Hutter, algorithm 2, one value after the other.
void plain_step(std::span<float> values, std::span<const float> gradients, std::vector<float>& mean,
                std::vector<float>& square, int step) {
  const double c1 = 1 - std::pow(.9, step), c2 = 1 - std::pow(.999, step);
  for (std::size_t i = 0; i < values.size(); ++i) {
    mean[i] = .9F * mean[i] + .1F * gradients[i];
    square[i] = .999F * square[i] + .001F * gradients[i] * gradients[i];
    values[i] = static_cast<float>(values[i] * (1 - 1e-5) -
                                   1e-3 / c1 * mean[i] / (std::sqrt(square[i] / c2) + 1e-8));
  }
}

void check() {
  Problem problem;
  float* values = problem.arena.parameters().mutable_data_ptr<float>();
  std::vector<float> plain(values, values + parameters), mean(plain.size()), square(plain.size());
  const std::span<const float> gradients(problem.arena.gradients().const_data_ptr<float>(),
                                         plain.size());
  for (int step = 1; step <= 3; ++step) {
    problem.optimizer.step(1, 1);
    plain_step(plain, gradients, mean, square, step);
  }
  double worst = 0;
  for (std::size_t i = 0; i < plain.size(); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(plain[i] - values[i])));
  std::printf("AdamW against the plain loop after 3 steps: largest difference %.1e\n", worst);
  if (!(worst < 1e-6)) std::exit(1);
}

void count(benchmark::State& state) {
  state.counters["parameters/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * parameters), benchmark::Counter::kIsRate);
}

void fused(benchmark::State& state) {
  at::set_num_threads(static_cast<int>(state.range(0)));
  Problem problem;
  for (auto _ : state) problem.optimizer.step(1, 1);
  count(state);
}

void plain(benchmark::State& state) {
  Problem problem;
  float* values = problem.arena.parameters().mutable_data_ptr<float>();
  std::vector<float> mean(parameters), square(parameters);
  int step = 0;
  for (auto _ : state)
    plain_step({values, parameters},
               {problem.arena.gradients().const_data_ptr<float>(), parameters}, mean, square,
               ++step);
  count(state);
}

void norm(benchmark::State& state) {
  at::set_num_threads(static_cast<int>(state.range(0)));
  Problem problem;
  for (auto _ : state)
    benchmark::DoNotOptimize(gradient_norm(problem.arena, {0, problem.arena.capacity()}));
  count(state);
}

void zero(benchmark::State& state) {
  at::set_num_threads(static_cast<int>(state.range(0)));
  Problem problem;
  for (auto _ : state) problem.arena.zero_gradients();
  count(state);
}

BENCHMARK(fused)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(plain)->Arg(1)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(norm)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(zero)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) {
  gpuhpc::check();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
