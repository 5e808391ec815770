// Speed of the steps between vectors and labels, one thread: documents per second for 531 classes,
// 487 paths and width 384 (the size of Amazon-531 with all-MiniLM-L6-v2), 512 documents a block.
// Each bench first compares a sample of its answers with the plain formula in double and stops when
// they differ.
//   labels_bench [--benchmark_filter=...]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/labels/lexical.hpp"
#include "gpuhpc/labels/scoring.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t block = 512, width = 384;

// 6 roots, 63 inner classes, 462 leaves, 25 of them with a second parent.
Taxonomy make_taxonomy() {
  std::vector<std::string> names;
  std::vector<TaxonomyEdge> edges;
  for (ClassId c = 0; c < 531; ++c) {
    names.push_back("class_" + std::to_string(c) + "_word_" + std::to_string(c % 97));
    if (c >= 6) edges.push_back({c < 69 ? c % 6 : 6 + c % 63, c});
    if (c >= 506) edges.push_back({6 + (c + 1) % 63, c});
  }
  return Taxonomy(std::move(names), edges);
}

Matrix random_rows(std::int64_t rows, std::int64_t columns, std::uint64_t stream) {
  RandomStream random(1, stream);
  Matrix matrix(rows, columns);
  for (float& value : matrix.values) value = static_cast<float>(random.uniform() - .3);
  normalise_rows(matrix.view());
  return matrix;
}

Matrix random_posterior(std::int64_t rows, std::int64_t paths) {
  Matrix posterior = random_rows(rows, paths, 9);
  for (float& value : posterior.values) value *= 60;
  softmax_rows(posterior.view());
  return posterior;
}

void require(benchmark::State& state, bool holds) {
  if (!holds) {
    state.SkipWithError("the answers differ from the plain formula");
    std::exit(1);
  }
}

void count_documents(benchmark::State& state) {
  state.counters["documents/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * block), benchmark::Counter::kIsRate);
}

void scores(benchmark::State& state) {
  const Taxonomy taxonomy = make_taxonomy();
  const Matrix documents = random_rows(block, width, 1),
               paths = path_vectors(taxonomy, random_rows(taxonomy.size(), width, 2).view());
  Matrix found(block, paths.rows);
  score_paths(documents.view(), paths.view(), found.view());
  for (std::int64_t i = 0; i < block; i += 37)
    for (std::int64_t k = 0; k < paths.rows; ++k)
      require(state, std::abs(found.row(i)[static_cast<std::size_t>(k)] -
                              dot(documents.row(i), paths.row(k))) < 1e-5);
  for (auto _ : state) score_paths(documents.view(), paths.view(), found.view());
  count_documents(state);
}
BENCHMARK(scores);

void soft_sums(benchmark::State& state) {
  const auto paths = std::ssize(make_taxonomy().paths());
  const Matrix documents = random_rows(block, width, 1), posterior = random_posterior(block, paths);
  FixedSums sums(paths, width);
  add_soft_sums(posterior.view(), documents.view(), sums);
  for (std::int64_t k = 0; k < paths; k += 50)
    for (std::int64_t j = 0; j < width; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < block; ++i)
        sum += double{posterior.row(i)[static_cast<std::size_t>(k)]} *
               documents.row(i)[static_cast<std::size_t>(j)];
      require(state, std::abs(sums.value(k, j) - sum) < 1e-5);
    }
  for (auto _ : state) add_soft_sums(posterior.view(), documents.view(), sums);
  count_documents(state);
}
BENCHMARK(soft_sums);

void softmax(benchmark::State& state) {
  const Matrix logits = random_rows(block, 487, 3);
  Matrix found = logits;
  softmax_rows(found.view());
  for (std::int64_t i = 0; i < block; i += 37) {
    double sum = 0;
    for (const float z : logits.row(i)) sum += std::exp(double{z});
    for (std::size_t k = 0; k < 487; ++k)
      require(state, std::abs(found.row(i)[k] - std::exp(double{logits.row(i)[k]}) / sum) < 1e-6);
  }
  for (auto _ : state) {
    found = logits;
    softmax_rows(found.view());
  }
  count_documents(state);
}
BENCHMARK(softmax);

void smoothing(benchmark::State& state) {
  const auto paths = std::ssize(make_taxonomy().paths());
  const Matrix all = random_posterior(20 * block, paths);
  SparseMatrix links;
  links.columns_count = all.rows;
  RandomStream random(1, 5);
  for (std::int64_t i = 0; i < block; ++i) {
    for (int n = 0; n < 20; ++n) {
      links.columns.push_back(
          static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(all.rows))));
      links.values.push_back(.05f);
    }
    links.offsets.push_back(std::ssize(links.columns));
  }
  const MatrixView own = all.view().slice(0, block);
  Matrix found(block, paths);
  smooth_rows(own, links, all.view(), .5, found.view());
  for (std::size_t k = 0; k < static_cast<std::size_t>(paths); ++k) {
    double sum = .5 * own.row(3)[k];
    for (std::size_t n = 60; n < 80; ++n) sum += .5 * .05 * all.row(links.columns[n])[k];
    require(state, std::abs(found.row(3)[k] - sum) < 1e-6);
  }
  for (auto _ : state) smooth_rows(own, links, all.view(), .5, found.view());
  count_documents(state);
}
BENCHMARK(smoothing);

void lexical(benchmark::State& state) {
  const Taxonomy taxonomy = make_taxonomy();
  const LexicalEvidence evidence(taxonomy);
  std::vector<std::string> texts(block);
  RandomStream random(1, 6);
  for (auto& text : texts)
    for (int word = 0; word < 75; ++word)
      text += (random.below(4) == 0 ? "classes " : "ordinary ") +
              std::to_string(random.below(900)) + " ";
  Matrix found(block, std::ssize(taxonomy.paths()));
  evidence.add(texts, 1, found.view());
  for (std::size_t i = 0; i < texts.size();
       i += 37) {  // every idf is 1 here: the share of name tokens that the text has
    const auto in_text = lexical_tokens(texts[i]);
    for (std::int64_t k = 0; k < found.columns; k += 11) {
      auto name = lexical_tokens(taxonomy.title(taxonomy.path_leaf(k)));
      std::sort(name.begin(), name.end());
      name.erase(std::unique(name.begin(), name.end()), name.end());
      const auto hits = std::ranges::count_if(
          name, [&](const auto& token) { return std::ranges::count(in_text, token) > 0; });
      const double share = static_cast<double>(hits) / static_cast<double>(name.size());
      require(state, std::abs(found.row(static_cast<std::int64_t>(i))[static_cast<std::size_t>(k)] -
                              share) < 1e-6);
    }
  }
  for (auto _ : state) evidence.add(texts, 1, found.view());
  count_documents(state);
}
BENCHMARK(lexical);

void decoding(benchmark::State& state) {
  const Taxonomy taxonomy = make_taxonomy();
  const Decoder decoder(taxonomy, {});
  const Matrix posterior = random_posterior(block, std::ssize(taxonomy.paths()));
  Matrix marginals(block, taxonomy.size());
  path_marginals(taxonomy, posterior.view(), marginals.view());
  const auto labels = decoder.decode(marginals.row(0), posterior.row(0));
  const auto p = decoder.probabilities(marginals.row(0));
  require(state, labels.size() >= 2 &&
                     p[static_cast<std::size_t>(labels.front())] == *std::ranges::max_element(p));
  for (auto _ : state) {
    path_marginals(taxonomy, posterior.view(), marginals.view());
    for (std::int64_t i = 0; i < block; ++i)
      benchmark::DoNotOptimize(decoder.decode(marginals.row(i), posterior.row(i)));
  }
  count_documents(state);
}
BENCHMARK(decoding);

}  // namespace
}  // namespace gpuhpc

BENCHMARK_MAIN();
