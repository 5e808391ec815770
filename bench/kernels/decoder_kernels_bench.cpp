// The kernels of a T5 that writes token by token, one per level of this machine: 8 heads of 64, the
// keys of 100 tokens for one text and for three that share them; norms of 32 rows; a pass over
// 8,000 words. Answers are compared with the plain kernels before anything is timed.
//   decoder_kernels_bench [--benchmark_filter=bf16]
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "gpuhpc/kernels/decoder_kernels.hpp"
#include "gpuhpc/kernels/packed_matrix.hpp"

namespace gpuhpc::kernels {
namespace {

constexpr std::int64_t kHeads = 8, kSize = 64, kWidth = kHeads * kSize, kKeys = 100, kRows = 32,
                       kWords = 8000, kTexts = 64;  // whose keys together are not in the cache

template <typename T>
T rounded(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return to_bf16(value);
}

template <typename T>
struct Work {
  AlignedBuffer<float> values{kRows * kWidth}, scratch{kKeys + 16};
  AlignedBuffer<T> normed{kRows * kWidth}, queries{3 * kWidth}, context{3 * kWidth},
      cache{kTexts * 2 * kKeys * kWidth};  // (texts, keys and values, A, keys, D)
  std::vector<float> gamma = std::vector<float>(kWidth, .9F);
  std::vector<const T*> rows;
  std::int64_t text = 0;

  Work() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < values.size(); ++i) values.data()[i] = normal(random);
    for (std::int64_t i = 0; i < queries.size(); ++i)
      queries.data()[i] = rounded<T>(.2F * normal(random));
    for (std::int64_t i = 0; i < cache.size(); ++i) cache.data()[i] = rounded<T>(normal(random));
    for (std::int64_t t = 0; t < kKeys; ++t) rows.push_back(cache.data() + t * kSize);
  }
  void norm(const DecoderKernels<T>& kernels) {
    kernels.rms_norm(
        {values.data(), kWidth, kRows, kWidth, gamma.data(), 1e-6F, normed.data(), kWidth});
  }
  void attention(const DecoderKernels<T>& kernels, std::int64_t queries_of_a_text) {
    kernels.attention({queries.data(), kWidth, queries_of_a_text, kHeads, kSize, rows.data(), 0,
                       kKeys, text++ % kTexts * 2 * kKeys * kWidth, kKeys * kSize, kKeys * kWidth,
                       nullptr, 0, context.data(), kWidth, scratch.data()});
  }
};

template <typename T>
void compare(Isa isa) {
  Work<T> a, b;
  const DecoderKernels<T> fast = decoder_kernels<T>(isa), plain = decoder_kernels<T>(Isa::generic);
  a.norm(fast), a.attention(fast, 3), b.norm(plain), b.attention(plain, 3);
  double difference = 0;
  const auto add = [&](const AlignedBuffer<T>& x, const AlignedBuffer<T>& y) {
    for (std::int64_t i = 0; i < x.size(); ++i)
      difference = std::max(
          difference, static_cast<double>(std::abs(to_float(x.data()[i]) - to_float(y.data()[i]))));
  };
  add(a.normed, b.normed), add(a.context, b.context);
  if (difference <= (std::is_same_v<T, float> ? 1e-5 : 3e-2)) return;
  std::fprintf(stderr, "%s differs from the plain kernels by %g: nothing is timed\n",
               std::string(to_string(isa)).c_str(), difference);
  std::exit(1);
}

template <typename T>
void add_level(Isa isa, const char* precision) {
  compare<T>(isa);
  const auto add = [&](const char* name, double rows, auto work) {
    benchmark::RegisterBenchmark(
        fmt::format("{}/{}/{}", name, precision, to_string(isa)).c_str(),
        [=](benchmark::State& state) {
          const DecoderKernels<T> kernels = decoder_kernels<T>(isa);
          Work<T> all;
          for (auto step : state) {
            (void)step;
            work(all, kernels);
          }
          state.counters["s/row"] = benchmark::Counter(
              rows, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
        });
  };
  using Kernels = DecoderKernels<T>;
  add("rms_norm", kRows, [](Work<T>& all, const Kernels& kernels) { all.norm(kernels); });
  add("attention_1", 1, [](Work<T>& all, const Kernels& kernels) { all.attention(kernels, 1); });
  add("attention_3", 3, [](Work<T>& all, const Kernels& kernels) { all.attention(kernels, 3); });
}

void add_words(Isa isa) {
  benchmark::RegisterBenchmark(
      fmt::format("log_sum_exp/{}", to_string(isa)).c_str(), [=](benchmark::State& state) {
        const WordKernels kernels = word_kernels(isa);
        std::vector<float> scores(kWords);
        for (std::size_t i = 0; i < scores.size(); ++i)
          scores[i] = static_cast<float>(i * 7919 % 1009) / 100;
        for (auto step : state) {
          (void)step;
          benchmark::DoNotOptimize(kernels.log_sum_exp(scores.data(), kWords));
        }
        state.counters["s/word"] = benchmark::Counter(
            kWords, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
      });
}

}  // namespace
}  // namespace gpuhpc::kernels

int main(int argc, char** argv) {
  using namespace gpuhpc::kernels;
  for (const Isa isa : {Isa::avx2, Isa::avx512})
    if (supported(isa)) add_level<float>(isa, "fp32"), add_words(isa);
  if (supported(Isa::avx512_bf16)) add_level<gpuhpc::kernels::BFloat16>(Isa::avx512_bf16, "bf16");
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
