// The passes over a corpus file, one core: the scan that checks every row and finds the blocks, and
// reading the blocks again for a tokenizer that costs nothing, into shards.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace {

using namespace gpuhpc;
namespace fs = std::filesystem;

// One id a byte: the bench is of reading, not of a tokenizer.
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

class CorpusFolder {
 public:
  CorpusFolder(std::int64_t documents, const std::string& kind) : corpus_("c." + kind) {
    std::string name = (fs::temp_directory_path() / "gpuhpc-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw io_error("cannot create {}", name);
    path_ = name;
    RandomStream random(1, 1);
    AtomicFile file(corpus());
    if (kind == "csv") file.write("id,text\n");
    for (std::int64_t i = 0; i < documents; ++i) {
      std::string text(100 + random.below(900), 'w');
      for (std::size_t at = 5; at < text.size(); at += 6) text[at] = ' ';
      const std::string id = std::to_string(i);
      file.write(kind == "txt"   ? id + "\t" + text + "\n"
                 : kind == "csv" ? id + ",\"" + text + "\"\n"
                                 : "{\"id\": " + id + ", \"text\": \"" + text + "\"}\n");
    }
    file.commit();
  }
  ~CorpusFolder() { fs::remove_all(path_); }
  fs::path corpus() const { return path_ / corpus_; }
  fs::path shards() const { return path_ / "shards"; }

 private:
  std::string corpus_;
  fs::path path_;
};

void scanning(benchmark::State& state, const std::string& kind) {
  const CorpusFolder folder(state.range(0), kind);
  const auto comm = make_single_communicator();
  for (auto _ : state)
    if (scan_corpus(folder.corpus(), {}, *comm).documents() != state.range(0))
      state.SkipWithError("documents are missing");
  state.SetBytesProcessed(static_cast<std::int64_t>(fs::file_size(folder.corpus())) *
                          static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK_CAPTURE(scanning, txt, "txt")->Arg(200'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scanning, csv, "csv")->Arg(200'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scanning, jsonl, "jsonl")->Arg(200'000)->Unit(benchmark::kMillisecond);

void preparing(benchmark::State& state, Texts texts) {
  const CorpusFolder folder(state.range(0), "txt");
  const auto comm = make_single_communicator();
  const CorpusScan scan = scan_corpus(folder.corpus(), {}, *comm);
  for (auto _ : state) prepare_shards(scan, ByteTokenizer(), folder.shards(), {}, texts, *comm, 1);
  state.SetBytesProcessed(static_cast<std::int64_t>(fs::file_size(folder.corpus())) *
                          static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK_CAPTURE(preparing, without_texts, Texts::leave)
    ->Arg(100'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(preparing, with_texts, Texts::keep)->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
