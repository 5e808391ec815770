// A T5 that generates on one thread: sources encoded, and one token written behind texts of 16, in
// sources of 100 tokens, with T5-small's (0) or T5-base's (1) layers. Before any speed is printed,
// bf16 must agree with fp32.
//   t5_bench --benchmark_counters_tabular=true
// Arguments: shape, bf16 (0 or 1), sources, beams of each. Counters: tokens/s, and what the
// products with weights come to.
#include <gpuhpc/nn/cpu_t5.hpp>

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace gpuhpc {
namespace {

constexpr std::int64_t kSource = 100, kWritten = 16, kLongest = 64;

T5Config config_of(bool base) {
  T5Config c;
  c.vocabulary_size = 8000, c.head_size = 64;
  c.hidden_size = base ? 768 : 512, c.heads = base ? 12 : 8;
  c.intermediate_size = base ? 3072 : 2048, c.layers = c.decoder_layers = base ? 12 : 6;
  return c;
}

const T5& model_of(bool base) {
  static std::map<bool, T5> models;
  if (const auto found = models.find(base); found != models.end()) return found->second;
  T5& model = models.emplace(base, T5(config_of(base))).first->second;
  model.initialise(1);
  return model;
}

PackedIds sources_of(std::int64_t count) {
  PackedIds sources;
  for (std::int64_t i = 0; i < count * kSource; ++i)
    sources.token_ids.push_back(static_cast<std::int32_t>((i * 7919 + 1013) % 8000));
  for (std::int64_t i = 1; i <= count; ++i)
    sources.offsets.push_back(static_cast<std::int32_t>(i * kSource));
  return sources;
}

struct Writing {
  std::unique_ptr<CpuT5> t5;
  std::unique_ptr<CpuT5Texts> texts;
  std::vector<CpuT5Texts::Row> rows;

  Writing(bool base, bool bf16, std::int64_t beams)
      : t5(make_cpu_t5(model_of(base), bf16 ? CpuPrecision::bf16 : CpuPrecision::fp32,
                       kernels::best_isa(), kSource, kLongest)),
        texts(t5->make_texts(beams)) {}
  CpuT5Texts::Scores begin(std::int64_t sources, std::int64_t beams) {
    rows.clear();
    for (const std::int64_t number : texts->add(sources_of(sources)))
      rows.push_back({number, 0, 0});
    texts->step(rows);
    std::vector<CpuT5Texts::Row> all;
    for (const CpuT5Texts::Row& row : rows)
      for (std::int32_t b = 0; b < beams; ++b) all.push_back({row.source, 0, 5 + b});
    rows = std::move(all);
    CpuT5Texts::Scores scores = texts->step(rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i].parent = static_cast<std::int64_t>(i) % beams;
    for (std::int64_t t = 2; t < kWritten; ++t) scores = texts->step(rows);
    return scores;
  }
  void end() {
    std::int64_t last = -1;
    for (const CpuT5Texts::Row& row : rows)
      if (row.source != last) texts->remove(last = row.source);
  }
};

void compare() {
  Writing exact(false, false, 3), fast(false, true, 3);
  const CpuT5Texts::Scores a = exact.begin(5, 3), b = fast.begin(5, 3);
  double squares = 0, wanted = 0;
  for (std::int64_t row = 0; row < 15; ++row)
    for (std::int64_t v = 0; v < 8000; ++v) {
      const double x = a.data[row * a.stride + v];
      squares += std::pow(x - b.data[row * b.stride + v], 2), wanted += x * x;
    }
  if (squares <= .03 * .03 * wanted) return;
  std::fprintf(stderr, "bf16 differs from fp32 by %g: nothing is timed\n",
               std::sqrt(squares / wanted));
  std::exit(1);
}

void report(benchmark::State& state, double tokens, double weights) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["tokens/s"] = benchmark::Counter(tokens, rate);
  state.counters["FLOP/s"] = benchmark::Counter(2 * tokens * weights, rate);
}

void encode(benchmark::State& state) {
  Writing writing(state.range(0) != 0, state.range(1) != 0, 1);
  const PackedIds sources = sources_of(state.range(2));
  for (auto step : state) {
    (void)step;
    for (const std::int64_t number : writing.texts->add(sources)) writing.texts->remove(number);
  }
  const T5Config c = config_of(state.range(0) != 0);
  const double inner = static_cast<double>(c.inner_size() * c.hidden_size),
               layer = 4 * inner + 2 * static_cast<double>(c.hidden_size * c.intermediate_size);
  report(state, static_cast<double>(state.range(2) * kSource),
         static_cast<double>(c.layers) * (layer + 2 * inner));
}

void write_token(benchmark::State& state) {
  const std::int64_t sources = state.range(2), beams = state.range(3);
  Writing writing(state.range(0) != 0, state.range(1) != 0, beams);
  writing.begin(sources, beams);
  std::int64_t length = kWritten;
  for (auto step : state) {
    (void)step;
    if (length++ == kLongest) {
      state.PauseTiming();
      writing.end();
      writing.begin(sources, beams);
      length = kWritten + 1;
      state.ResumeTiming();
    }
    benchmark::DoNotOptimize(writing.texts->step(writing.rows).data);
  }
  const T5Config c = config_of(state.range(0) != 0);
  const double layer = 6 * static_cast<double>(c.inner_size() * c.hidden_size) +
                       2 * static_cast<double>(c.hidden_size * c.intermediate_size);
  report(state, static_cast<double>(sources * beams),
         static_cast<double>(c.decoder_layers) * layer +
             static_cast<double>(c.hidden_size * c.vocabulary_size));
}

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) {
  using namespace gpuhpc;
  compare();
  for (const int shape : {0, 1})
    for (const int bf16 : {0, 1}) {
      benchmark::RegisterBenchmark("encode", encode)->Args({shape, bf16, 8});
      for (const int sources : {1, 8, 32})
        benchmark::RegisterBenchmark("write_token", write_token)->Args({shape, bf16, sources, 1});
      benchmark::RegisterBenchmark("write_token", write_token)->Args({shape, bf16, 32, 3});
    }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
