// Packed batches out of memory-mapped shards, one core. Tokens a second count real tokens, specials
// included; each is written twice (id and position). The answer is compared with the documents
// before a speed is shown.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/data/batches.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace {

using namespace gpuhpc;
namespace fs = std::filesystem;

// One id a byte: the bench is of batches, not of a tokenizer.
class ByteTokenizer final : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    for (const char c : text) ids.push_back(5 + static_cast<unsigned char>(c));
  }
  std::int64_t vocabulary_size() const override { return 261; }
  std::string decode(std::span<const std::int32_t>, bool) const override { return ""; }
  const SpecialTokens& special() const override { return special_; }
  std::string fingerprint() const override { return "bytes"; }

 private:
  SpecialTokens special_{{{1}, {2}}, {}, 0, 3, 4, -1, {0, 1, 2, 3, 4}};
};

class ShardFolder {
 public:
  explicit ShardFolder(std::int64_t documents) {
    std::string name = (fs::temp_directory_path() / "gpuhpc-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw io_error("cannot create {}", name);
    path_ = name;
    RandomStream random(1, 1);
    AtomicFile file(path_ / "c.txt");
    for (std::int64_t i = 0; i < documents; ++i)
      file.write(std::to_string(i) + "\t" + std::string(20 + random.below(180), 'w') + "\n");
    file.commit();
    prepare_shards(path_ / "c.txt", {}, ByteTokenizer(), path_ / "shards", {},
                   *make_single_communicator());
  }
  ~ShardFolder() { fs::remove_all(path_); }
  fs::path shards() const { return path_ / "shards"; }

 private:
  fs::path path_;
};

std::int64_t sum_of(const TokenDataset& dataset, std::int64_t max_length) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    for (const auto& window : windows(dataset.tokens(i), max_length - 2, LongDocuments::mean))
      sum += std::accumulate(window.begin(), window.end(), std::int64_t{3});
  }
  return sum;
}

void packed_batches(benchmark::State& state, LongDocuments mode) {
  constexpr std::int64_t max_length = 128;
  const ShardFolder folder(state.range(0));
  const TokenDataset dataset(folder.shards());
  const WindowedDataset items(dataset, max_length, mode);
  const auto batches = make_batches(items.lengths(), {});
  PackedIds packed;
  std::int64_t sum = 0, tokens = 0;
  for (const auto& batch : batches) {
    items.pack(batch, 1, 2, packed);
    sum = std::accumulate(packed.token_ids.begin(), packed.token_ids.end(), sum);
    tokens += std::ssize(packed.token_ids);
  }
  if (mode == LongDocuments::mean && sum != sum_of(dataset, max_length)) {
    state.SkipWithError("packed tokens differ from the documents");
    return;
  }
  for (auto _ : state) {
    for (const auto& batch : batches) {
      items.pack(batch, 1, 2, packed);
      benchmark::DoNotOptimize(packed.token_ids.data());
    }
  }
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(tokens) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(packed_batches, truncate, LongDocuments::truncate)
    ->Arg(200'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(packed_batches, mean, LongDocuments::mean)
    ->Arg(200'000)
    ->Unit(benchmark::kMillisecond);

void cutting_batches(benchmark::State& state) {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(state.range(0)));
  RandomStream random(2, 1);
  for (auto& length : lengths) length = static_cast<std::int32_t>(2 + random.below(255));
  for (auto _ : state) benchmark::DoNotOptimize(make_batches(lengths, {}));
  state.counters["items/s"] = benchmark::Counter(
      static_cast<double>(state.range(0)) * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}
BENCHMARK(cutting_batches)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void reading_corpus(benchmark::State& state) {
  const ShardFolder folder(state.range(0));
  const fs::path corpus = folder.shards().parent_path() / "c.txt";
  for (auto _ : state) {
    CorpusReader reader(corpus);
    Document document;
    while (reader.next(document)) benchmark::DoNotOptimize(document.text.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(fs::file_size(corpus)) *
                          static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(reading_corpus)->Arg(200'000)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
