// Kernels of the encoder at MiniLM's shapes, one per level of this machine: GFLOP/s of the
// products, ns a token of the rest. Answers are compared with the plain kernels before anything is
// timed.
//   encoder_kernels_bench [--benchmark_filter=bf16]
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/kernels/encoder_kernels.hpp"
#include "gpuhpc/kernels/training_kernels.hpp"

namespace gpuhpc::kernels {
namespace {

constexpr std::int64_t kHidden = 384, kSlice = 384, kTokens = 352, kHeads = 12, kDocument = 104;

template <typename T>
T rounded(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return to_bf16(value);
}

// One slice of a feed-forward layer, and one document for attention.
template <typename T, typename W = T>
struct Work {
  const std::int64_t input_stride = std::is_same_v<W, Int8> ? int8_stride(kHidden) : kHidden;
  AlignedBuffer<W> input{kTokens * input_stride};
  AlignedBuffer<T> wide{kTokens * kSlice}, qkv{(kDocument + 32) * 3 * kHidden},
      context{(kDocument + 32) * kHidden};
  AlignedBuffer<float> residual{kTokens * kHidden};
  AlignedBuffer<std::byte> scratch{attention_scratch_bytes(kDocument, kHidden / kHeads)};
  PackedMatrix<W> up, down;
  std::vector<float> bias = std::vector<float>(kHidden, 0.1F),
                     gamma = std::vector<float>(kHidden, 1.0F);

  Work() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < residual.size(); ++i) residual.data()[i] = normal(random);
    layer_norm(encoder_kernels<T, W>(Isa::generic));  // fills the input
    for (std::int64_t i = 0; i < qkv.size(); ++i) qkv.data()[i] = rounded<T>(normal(random));
    Matrix weight(kSlice, kHidden);
    for (float& value : weight.values) value = 0.05F * normal(random);
    up = pack<W>(weight.view());
    down = pack<W>(weight.view());
  }
  void linear(const EncoderKernels<T, W>& kernels) {
    kernels.linear({input.data(), input_stride, kTokens, &up, 0, up.panels(), bias.data(),
                    Activation::gelu, wide.data(), kSlice});
  }
  void accumulate(const EncoderKernels<T, W>& kernels) {
    kernels.accumulate({wide.data(), kSlice, kTokens, &down, residual.data(), kHidden});
  }
  void attention(const EncoderKernels<T, W>& kernels) {
    kernels.attention({qkv.data(), 3 * kHidden, kHidden, 2 * kHidden, kDocument, kHeads,
                       kHidden / kHeads, 0.17F, context.data(), kHidden, scratch.data()});
  }
  void layer_norm(const EncoderKernels<T, W>& kernels) {
    kernels.layer_norm({residual.data(), kHidden, kTokens, kHidden, gamma.data(), bias.data(),
                        1e-12F, bias.data(), input.data(), input_stride});
  }
};

// The gradient of attention in one document.
template <typename T>
struct GradientWork {
  std::int64_t tokens, width, size;
  AlignedBuffer<T> qkv{(tokens + 32) * 3 * width}, gradient{(tokens + 32) * width},
      result{(tokens + 32) * 3 * width};
  AlignedBuffer<std::byte> scratch{attention_gradient_scratch_bytes(tokens, size)};

  GradientWork(std::int64_t tokens_, std::int64_t width_, std::int64_t size_)
      : tokens(tokens_), width(width_), size(size_) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < tokens * 3 * width; ++i)
      qkv.data()[i] = rounded<T>(normal(random));
    for (std::int64_t i = 0; i < tokens * width; ++i)
      gradient.data()[i] = rounded<T>(normal(random));
  }
  void run(const TrainingKernels<T>& kernels) {
    kernels.attention_gradient({qkv.data(), 3 * width, width, 2 * width, tokens, width / size, size,
                                0.17F, gradient.data(), width, result.data(), 3 * width,
                                scratch.data()});
  }
};

[[noreturn]] void refuse(Isa isa, double difference) {
  std::fprintf(stderr, "%s differs from the plain kernels by %g: nothing is timed\n",
               std::string(to_string(isa)).c_str(), difference);
  std::exit(1);
}

template <typename T>
void add_gradient(Isa isa, const char* precision, std::int64_t tokens, std::int64_t width,
                  std::int64_t size) {
  const EncoderKernels<T> kernels = encoder_kernels<T>(isa);
  const TrainingKernels<T> fast = training_kernels<T>(isa);
  GradientWork<T> a(tokens, width, size), b(tokens, width, size);
  {
    const KernelScope<T> scope(kernels);
    a.run(fast);
  }
  b.run(training_kernels<T>(Isa::generic));
  double difference = 0;
  for (std::int64_t i = 0; i < tokens * 3 * width; ++i)
    difference = std::max(difference, static_cast<double>(std::abs(to_float(a.result.data()[i]) -
                                                                   to_float(b.result.data()[i]))));
  if (!(difference <= (std::is_same_v<T, float> ? 2e-4 : 6e-2))) refuse(isa, difference);
  benchmark::RegisterBenchmark(
      fmt::format("attention_gradient/{}x{}/{}/{}", tokens, size, precision, to_string(isa))
          .c_str(),
      [=](benchmark::State& state) {
        const KernelScope<T> scope(kernels);
        GradientWork<T> work(tokens, width, size);
        for (auto step : state) {
          (void)step;
          work.run(fast);
        }
        const auto rate = benchmark::Counter::kIsIterationInvariantRate;
        state.counters["FLOP/s"] =
            benchmark::Counter(10.0 * static_cast<double>(tokens * tokens * width), rate);
        state.counters["s/token"] =
            benchmark::Counter(static_cast<double>(tokens), rate | benchmark::Counter::kInvert);
      });
}

template <typename T, typename W>
void compare(Isa isa) {
  const EncoderKernels<T, W> fast = encoder_kernels<T, W>(isa),
                             plain = encoder_kernels<T, W>(Isa::generic);
  Work<T, W> a, b;
  {
    const KernelScope<T, W> scope(fast);
    a.linear(fast), a.accumulate(fast), a.attention(fast);
  }
  b.linear(plain), b.accumulate(plain), b.attention(plain);
  double difference = 0;
  for (std::int64_t i = 0; i < kTokens * kHidden; ++i)
    difference = std::max(
        difference, static_cast<double>(std::abs(a.residual.data()[i] - b.residual.data()[i])));
  for (std::int64_t i = 0; i < kDocument * kHidden; ++i)
    difference = std::max(difference, static_cast<double>(std::abs(to_float(a.context.data()[i]) -
                                                                   to_float(b.context.data()[i]))));
  if (!(difference <= (std::is_same_v<T, float> ? 2e-4 : 6e-2))) refuse(isa, difference);
}

template <typename T, typename W>
void add(Isa isa, const char* precision, const char* name,
         void (Work<T, W>::*part)(const EncoderKernels<T, W>&), double operations, double tokens) {
  benchmark::RegisterBenchmark(fmt::format("{}/{}/{}", name, precision, to_string(isa)).c_str(),
                               [=](benchmark::State& state) {
                                 const EncoderKernels<T, W> kernels = encoder_kernels<T, W>(isa);
                                 const KernelScope<T, W> scope(kernels);
                                 Work<T, W> work;
                                 for (auto step : state) {
                                   (void)step;
                                   (work.*part)(kernels);
                                 }
                                 const auto rate = benchmark::Counter::kIsIterationInvariantRate;
                                 if (operations > 0)
                                   state.counters["FLOP/s"] = benchmark::Counter(operations, rate);
                                 state.counters["s/token"] =
                                     benchmark::Counter(tokens, rate | benchmark::Counter::kInvert);
                               });
}

template <typename T, typename W = T>
void add_level(Isa isa, const char* precision) {
  compare<T, W>(isa);
  const double product = 2.0 * kTokens * kHidden * kSlice,
               scores = 4.0 * kDocument * kDocument * kHidden;
  add<T, W>(isa, precision, "linear_gelu", &Work<T, W>::linear, product, kTokens);
  add<T, W>(isa, precision, "accumulate", &Work<T, W>::accumulate, product, kTokens);
  add<T, W>(isa, precision, "attention", &Work<T, W>::attention, scores, kDocument);
  add<T, W>(isa, precision, "layer_norm", &Work<T, W>::layer_norm, 0, kTokens);
  if constexpr (std::is_same_v<T, W>) {  // training knows no split weights
    add_gradient<T>(isa, precision, 90, kHidden, 32);
    add_gradient<T>(isa, precision, 90, kHidden, 64);
    add_gradient<T>(isa, precision, 512, kHidden, 64);
  }
}

}  // namespace
}  // namespace gpuhpc::kernels

int main(int argc, char** argv) {
  using namespace gpuhpc::kernels;
  for (const Isa isa : {Isa::avx2, Isa::avx512})
    if (supported(isa)) add_level<float>(isa, "fp32");
  if (supported(Isa::amx)) add_level<float, SplitBFloat16>(Isa::amx, "tf32");
  for (const Isa isa : {Isa::avx512_bf16, Isa::amx})
    if (supported(isa)) {
      add_level<BFloat16>(isa, "bf16");
      add_level<BFloat16, Int8>(isa, "int8");
    }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
