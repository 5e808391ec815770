// The data path of `pretrain` on one core, from shards in the page cache to a batch: packing alone,
// and with the choice of masks. Tokens per second; each bench checks what it has made.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/pretrain/files.hpp"
#include "gpuhpc/pipelines/pretrain/task.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace {

using namespace gpuhpc;
namespace fs = std::filesystem;

constexpr std::int64_t vocabulary = 30522, texts = 60000, batch = 128, length = 128;

// Numbers with blanks between them: the bench is of the data path, not of a tokenizer.
class NumberTokenizer final : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    for (std::size_t at = 0; at + 5 <= text.size(); at += 6)
      ids.push_back(std::stoi(std::string(text.substr(at, 5))));
  }
  std::int64_t vocabulary_size() const override { return vocabulary; }
  std::string decode(std::span<const std::int32_t>, bool) const override { return ""; }
  const SpecialTokens& special() const override { return special_; }
  std::string fingerprint() const override { return "numbers"; }

 private:
  SpecialTokens special_{{{101}, {102}}, {}, 0, 100, 103, -1, {0, 100, 101, 102, 103}};
};

// 60,000 texts of 3 to 250 tokens.
class Texts {
 public:
  Texts() {
    std::string name = (fs::temp_directory_path() / "gpuhpc-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw io_error("cannot create {}", name);
    folder_ = name;
    RandomStream random(7, 0);
    {
      AtomicFile file(folder_ / "texts.txt");
      for (std::int64_t i = 0; i < texts; ++i) {
        std::string line;
        for (std::uint64_t t = 0, n = 3 + random.below(248); t < n; ++t)
          line += std::to_string(10000 + random.below(20000)) + " ";
        file.write(line + "\n");
      }
      file.commit();
    }
    const auto comm = make_single_communicator();
    CorpusOptions options;
    options.format = "lines";
    const PretrainInputs inputs = find_texts(folder_ / "texts.txt", options, *comm);
    prepare_shards(inputs.files[0], NumberTokenizer(), folder_ / "0", {}, gpuhpc::Texts::leave,
                   *comm, 1);
    files_ = open_datasets(folder_);
  }
  ~Texts() { fs::remove_all(folder_); }
  const std::vector<TokenDataset>& files() const { return files_; }

 private:
  fs::path folder_;
  std::vector<TokenDataset> files_;
};

const std::vector<TokenDataset>& files() {
  static const Texts made;
  return made.files();
}

MaskedLanguageTask make_task(std::vector<bool> continues = {}) {
  return {files(),
          length,
          NumberTokenizer().special(),
          vocabulary,
          .15,
          std::move(continues),
          11,
          [](const PackedIds&, const MaskedPlaces&, DropoutSeed) { return at::Tensor(); }};
}

// Batches of shuffled pieces, as training draws them.
std::vector<std::vector<std::int64_t>> batches(const MaskedLanguageTask& task) {
  std::vector<std::int64_t> items(static_cast<std::size_t>(task.size()));
  std::iota(items.begin(), items.end(), std::int64_t{0});
  RandomStream random(3, 0);
  random.shuffle(items);
  std::vector<std::vector<std::int64_t>> cut;
  for (std::size_t i = 0; i + batch <= items.size(); i += batch)
    cut.emplace_back(items.begin() + static_cast<std::ptrdiff_t>(i),
                     items.begin() + static_cast<std::ptrdiff_t>(i + batch));
  return cut;
}

void run(benchmark::State& state, const MaskedLanguageTask& task, bool masked) {
  const auto drawn = batches(task);
  std::int64_t tokens = 0, places = 0;
  std::size_t next = 0;
  bool sound = true;
  for (auto _ : state) {
    PackedIds packed = task.packed(drawn[next]);
    tokens += std::ssize(packed.token_ids);
    if (masked) {
      const MaskedPlaces chosen = task.mask(packed, static_cast<std::int64_t>(next));
      places += std::ssize(chosen.places);
      sound = sound && chosen.targets.front() >= 10000;
    }
    sound = sound && packed.token_ids.front() == 101 && packed.token_ids.back() == 102;
    benchmark::DoNotOptimize(packed.token_ids.data());
    next = (next + 1) % drawn.size();
  }
  const double share = static_cast<double>(places) / static_cast<double>(tokens);
  if (!sound || (masked && (share < .13 || share > .17))) state.SkipWithError("the batch is wrong");
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsRate);
}

void pack(benchmark::State& state) { run(state, make_task(), false); }
void pack_and_mask(benchmark::State& state) { run(state, make_task(), true); }
void pack_and_mask_words(benchmark::State& state) {
  std::vector<bool> continues(vocabulary);
  for (std::size_t id = 0; id < continues.size(); ++id) continues[id] = id % 4 == 0;
  run(state, make_task(std::move(continues)), true);
}

BENCHMARK(pack);
BENCHMARK(pack_and_mask);
BENCHMARK(pack_and_mask_words);

}  // namespace

BENCHMARK_MAIN();
