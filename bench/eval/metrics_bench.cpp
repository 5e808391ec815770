// Measuring N documents with 1,000 resamples: seconds by N and threads, all figures and their
// intervals together. Before any speed is printed, one resample's figures must equal those of the
// drawn documents written out one by one.
//   metrics_bench --benchmark_counters_tabular=true
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/eval/metrics.hpp"

namespace gpuhpc {
namespace {

constexpr std::int32_t roots = 16, class_count = 531;

Taxonomy make_taxonomy() {
  std::vector<std::string> names;
  std::vector<TaxonomyEdge> edges;
  for (std::int32_t c = 0; c < class_count; ++c) names.push_back("class_" + std::to_string(c));
  for (std::int32_t c = roots; c < class_count; ++c)
    edges.push_back({c < 120 ? c % roots : 16 + c % 104, c});
  return Taxonomy(names, edges);
}

LabelledDocuments make_documents(const Taxonomy& taxonomy, std::int64_t count) {
  LabelledDocuments documents;
  RandomStream random(1, 1);
  const auto draw_set = [&] {
    const std::vector<ClassId> leaf = {static_cast<ClassId>(random.below(class_count))};
    return taxonomy.with_ancestors(leaf);
  };
  for (std::int64_t d = 0; d < count; ++d) {
    documents.ids.push_back(std::to_string(d));
    documents.gold.push_back(draw_set());
    documents.predicted.push_back(random.uniform() < 0.5 ? documents.gold.back() : draw_set());
    auto& scores = documents.scores.emplace_back();
    for (const ClassId c : documents.predicted.back())
      scores.push_back({c, static_cast<float>(random.uniform())});
    sort_scores(scores);
  }
  return documents;
}

void check_one_resample(const Taxonomy& taxonomy) {
  const LabelledDocuments documents = make_documents(taxonomy, 500);
  EvalOptions options;
  options.bootstrap_samples = 1;
  const Evaluation evaluation = evaluate(taxonomy, documents, options);
  std::vector<std::uint16_t> counts;
  draw_counts(static_cast<std::uint64_t>(options.seed), 0, documents.size(), counts);
  LabelledDocuments drawn;
  for (std::size_t d = 0; d < counts.size(); ++d)
    for (int i = 0; i < counts[d]; ++i) {
      drawn.ids.push_back(documents.ids[d]);
      drawn.gold.push_back(documents.gold[d]);
      drawn.predicted.push_back(documents.predicted[d]);
      drawn.scores.push_back(documents.scores[d]);
    }
  options.bootstrap_samples = 0;
  const Evaluation direct = evaluate(taxonomy, drawn, options);
  for (std::size_t f = 0; f < direct.figures.size(); ++f) {
    const Figure &a = evaluation.figures[f], &b = direct.figures[f];
    if (a.name.starts_with("macro_")) continue;  // centred, see metrics.cpp
    if (std::abs(*a.low - *b.value) > 1e-12) {
      std::fprintf(stderr, "%s: %.17g in the resample, %.17g measured directly\n", a.name.c_str(),
                   *a.low, *b.value);
      std::exit(1);
    }
  }
}

void measure(benchmark::State& state) {
  const Taxonomy taxonomy = make_taxonomy();
  const LabelledDocuments documents = make_documents(taxonomy, state.range(0));
  const EvalOptions options;
  for (auto _ : state)
    benchmark::DoNotOptimize(
        evaluate(taxonomy, documents, options, static_cast<int>(state.range(1))));
  state.counters["documents"] = static_cast<double>(state.range(0));
}
BENCHMARK(measure)
    ->Args({2161, 1})
    ->Args({20000, 1})
    ->Args({20000, 2})
    ->Args({100000, 1})
    ->Unit(benchmark::kSecond)
    ->UseRealTime();

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) {
  gpuhpc::check_one_resample(gpuhpc::make_taxonomy());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
