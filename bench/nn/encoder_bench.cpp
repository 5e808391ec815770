// Speed of the encoder where it is trained: MiniLM shapes, top 3 layers learning, 32 documents of
// real lengths (Debian package descriptions cut at 96 tokens, mean 78) a step. Before any speed is
// printed, bf16 must agree with fp32.
//   encoder_bench --benchmark_counters_tabular=true
// Arguments: threads, bf16 (0 or 1). Counters: tokens/s, and seconds per epoch of 563,406 tokens
// (7,233 documents) would take.
#include <gpuhpc/nn/encoder.hpp>
#include <gpuhpc/nn/ops.hpp>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>

#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace gpuhpc {
namespace {

constexpr double epoch_tokens = 563406;
constexpr std::array<std::int32_t, 32> real_lengths = {56, 96, 86, 96, 88, 73, 96, 78, 96, 96, 70,
                                                       96, 96, 56, 53, 96, 96, 89, 96, 88, 83, 96,
                                                       96, 89, 78, 96, 59, 40, 52, 61, 96, 33};

EncoderConfig minilm() {
  EncoderConfig config;
  config.vocabulary_size = 30522;
  config.hidden_size = 384;
  config.layers = 6;
  config.heads = 12;
  config.intermediate_size = 1536;
  config.position_rows = 512;
  config.token_types = 2;
  return config;
}

Encoder random_minilm() {
  Encoder encoder(minilm(), at::kCPU);
  const at::Generator generator = make_generator(at::kCPU, 1);
  for (const NamedParameter& parameter : encoder.parameters()) {
    const at::NoGradGuard guard;
    const bool norm = parameter.name.ends_with("LayerNorm.weight");
    parameter.value.normal_(norm ? 1.0 : 0.0, 0.05, generator);
  }
  return encoder;
}

PackedTokens real_batch() {
  std::vector<std::int32_t> ids, offsets{0};
  for (const std::int32_t length : real_lengths) {
    for (std::int32_t i = 0; i < length; ++i)
      ids.push_back(static_cast<std::int32_t>((ids.size() * 7919 + 1013) % 30000));
    offsets.push_back(static_cast<std::int32_t>(ids.size()));
  }
  return pack_tokens(ids, offsets, at::kCPU);
}

ForwardOptions precision(bool bf16) {
  ForwardOptions options;
  options.compute = bf16 ? at::kBFloat16 : at::kFloat;
  return options;
}

void report(benchmark::State& state, std::int64_t tokens) {
  const double done = static_cast<double>(state.iterations()) * static_cast<double>(tokens);
  state.counters["tokens/s"] = benchmark::Counter(done, benchmark::Counter::kIsRate);
  state.counters["epoch_s"] = benchmark::Counter(
      done / epoch_tokens, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void training_step(benchmark::State& state) {
  at::set_num_threads(static_cast<int>(state.range(0)));
  Encoder encoder = random_minilm();
  encoder.train_top_layers(3);
  const PackedTokens batch = real_batch();
  const at::Tensor weights = at::randn({batch.documents(), 384});
  for (auto _ : state) {
    (encoder.embed(batch, {Pooling::mean, true, 96}, precision(state.range(1) != 0)) * weights)
        .sum()
        .backward();
    for (const NamedParameter& parameter : encoder.parameters())
      parameter.value.mutable_grad() = at::Tensor();
  }
  report(state, batch.tokens());
}
BENCHMARK(training_step)
    ->ArgNames({"threads", "bf16"})
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void frozen_forward(benchmark::State& state) {
  at::set_num_threads(static_cast<int>(state.range(0)));
  Encoder encoder = random_minilm();
  encoder.train_top_layers(3);
  const PackedTokens batch = real_batch();
  for (auto _ : state)
    benchmark::DoNotOptimize(encoder.forward_frozen(batch, precision(state.range(1) != 0)));
  report(state, batch.tokens());
}
BENCHMARK(frozen_forward)
    ->ArgNames({"threads", "bf16"})
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void attention(benchmark::State& state) {
  at::set_num_threads(static_cast<int>(state.range(0)));
  const PackedTokens batch = real_batch();
  const at::Tensor qkv = at::randn({batch.tokens(), 3 * 384})
                             .to(state.range(1) != 0 ? at::kBFloat16 : at::kFloat)
                             .set_requires_grad(true);
  const at::Tensor gradient = at::randn({batch.tokens(), 384}).to(qkv.scalar_type());
  for (auto _ : state) {
    const auto parts = qkv.view({batch.tokens(), 3, 12, 32}).unbind(1);
    gpuhpc::attention(parts[0], parts[1], parts[2], batch, batch, {.divisor = std::sqrt(32.0)})
        .backward(gradient);
    qkv.mutable_grad() = at::Tensor();
  }
  report(state, batch.tokens());
}
BENCHMARK(attention)
    ->ArgNames({"threads", "bf16"})
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

bool answers_agree() {
  const Encoder encoder = random_minilm();
  const PackedTokens batch = real_batch();
  const EmbeddingConfig embedding{Pooling::mean, true, 96};
  const at::Tensor cosine =
      (encoder.embed(batch, embedding) * encoder.embed(batch, embedding, precision(true))).sum(1);
  const double worst = cosine.min().item<double>();
  std::printf("smallest cosine between fp32 and bf16 embeddings: %.6f\n", worst);
  return worst >= 0.999;
}

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) {
  if (!gpuhpc::answers_agree()) return EXIT_FAILURE;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}
