#include "gpuhpc/data/token_shards.hpp"

#include <algorithm>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/manifest.hpp"
#include "gpuhpc/io/mapped_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

constexpr const char* manifest_name = "manifest.json";
constexpr const char* prepare_again = "run `gpuhpc prepare` again";
constexpr std::int64_t format_version = 2;
constexpr std::size_t head_bytes = 4096;

struct ShardEntry {
  std::int64_t documents = 0, tokens = 0, longest = 0;
  // fingerprint of the file's first 4 KiB, which hold the checksums' checksum: it stands for the
  // whole file
  std::string head;
};

// manifest.json: what was tokenised by what, and one line a shard.
struct ShardManifest {
  std::string tokenizer;  // its fingerprint
  std::int64_t vocabulary = 0;
  std::vector<ShardEntry> shards;
  std::string fingerprint;  // of all the above
};

std::string shard_name(std::int64_t shard) { return fmt::format("shard-{:05}.h5", shard); }

Json body_of(const ShardManifest& manifest) {
  Json shards = Json::array();
  std::int64_t documents = 0, tokens = 0;
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    const ShardEntry& shard = manifest.shards[i];
    shards.push_back({{"file", shard_name(static_cast<std::int64_t>(i))},
                      {"documents", shard.documents},
                      {"tokens", shard.tokens},
                      {"longest", shard.longest},
                      {"head", shard.head}});
    documents += shard.documents;
    tokens += shard.tokens;
  }
  return {{"format", "gpuhpc token shards"},
          {"version", format_version},
          {"tokenizer", manifest.tokenizer},
          {"vocabulary", manifest.vocabulary},
          {"documents", documents},
          {"tokens", tokens},
          {"shards", shards}};
}

std::string head_fingerprint(const fs::path& shard_file) {
  const MappedFile file(shard_file);
  if (file.bytes().size() < head_bytes)
    throw input_error("{}: the shard was cut; run `gpuhpc prepare` again", shard_file.string());
  return Fingerprint()
      .add(std::string_view(reinterpret_cast<const char*>(file.bytes().data()), head_bytes))
      .hex();
}

ShardManifest read_shard_manifest(const fs::path& folder) {
  const fs::path path = folder / manifest_name;
  const Json all = read_manifest(path, "token shards", format_version, prepare_again);
  ShardManifest manifest;
  try {
    manifest.tokenizer = all.at("tokenizer").get<std::string>();
    manifest.vocabulary = integer(all.at("vocabulary"));
    for (const Json& shard : all.at("shards")) {
      manifest.shards.push_back({integer(shard.at("documents")), integer(shard.at("tokens")),
                                 integer(shard.at("longest")),
                                 shard.at("head").get<std::string>()});
    }
  } catch (const Json::exception&) {
    throw input_error("{}: this is not a manifest of token shards; {}", path.string(),
                      prepare_again);
  }
  manifest.fingerprint = all.at("fingerprint").get<std::string>();
  return manifest;
}

// Blocks [first, last) of each shard: a function of the scan alone.
std::vector<Range> cut_shards(const CorpusScan& corpus, const ShardOptions& options) {
  std::vector<Range> shards;
  CorpusMark begin;
  for (std::int64_t block = 0; block < corpus.blocks(); ++block) {
    const CorpusMark& here = corpus.marks[static_cast<std::size_t>(block)];
    if (shards.empty() || here.document - begin.document >= options.shard_documents ||
        here.text - begin.text >= options.shard_megabytes << 20) {
      shards.push_back({block, block});
      begin = here;
    }
    shards.back().last = block + 1;
  }
  return shards;
}

// What one rank puts into a shard: documents that follow each other.
struct ShardPart {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> ends, text_ends;  // of each document, in `tokens` and in `text`
  std::vector<std::string> ids;
  std::string text;
  std::int64_t longest = 0, widest = 1;  // tokens, bytes of an id

  // The text of each document, or its field number `column`.
  void add(const Tokenizer& tokenizer, const std::vector<Document>& documents,
           std::optional<std::size_t> column, bool keep_text, int threads) {
    const auto text_of = [&](std::size_t i) -> const std::string& {
      return column ? documents[i].fields[*column] : documents[i].text;
    };
    std::vector<std::vector<std::int32_t>> lists(documents.size());
    std::vector<std::unique_ptr<TokenizerScratch>> scratches(static_cast<std::size_t>(threads));
    parallel_for(0, std::ssize(documents), threads, [&](std::int64_t i, int thread) {
      auto& scratch = scratches[static_cast<std::size_t>(thread)];
      if (!scratch) scratch = tokenizer.make_scratch();
      tokenizer.encode_with(*scratch, text_of(static_cast<std::size_t>(i)),
                            lists[static_cast<std::size_t>(i)]);
    });
    for (std::size_t i = 0; i < documents.size(); ++i) {
      for (const auto token : lists[i]) {
        if (token < 0 || token >= tokenizer.vocabulary_size())
          throw internal_error("the tokenizer gave {}, its vocabulary has {}", token,
                               tokenizer.vocabulary_size());
      }
      tokens.insert(tokens.end(), lists[i].begin(), lists[i].end());
      ends.push_back(std::ssize(tokens));
      longest = std::max(longest, std::ssize(lists[i]));
      widest = std::max(widest, std::ssize(documents[i].id));
      ids.push_back(documents[i].id);
      if (!keep_text) continue;
      text += text_of(i);
      text_ends.push_back(std::ssize(text));
    }
  }
};

// Sums over the parts of the ranks before this one, and over all.
struct PartSizes {
  std::int64_t documents = 0, tokens = 0, text = 0, longest = 0, widest = 1;
  void add(std::span<const std::int64_t> part) {
    documents += part[0], tokens += part[1], text += part[2];
    longest = std::max(longest, part[3]), widest = std::max(widest, part[4]);
  }
};

void write_ends(MatrixFileWriter& file, const std::string& name, std::int64_t first_document,
                std::int64_t base, std::vector<std::int64_t> ends) {
  for (std::int64_t& end : ends) end += base;
  if (first_document == 0) file.write_rows<std::int64_t>(name, 0, std::vector<std::int64_t>{0});
  file.write_rows<std::int64_t>(name, first_document + 1, ends);
}

// Collective: the parts of all ranks as one file.
ShardEntry write_shard(const fs::path& path, const ShardPart& part, const Tokenizer& tokenizer,
                       Texts texts, Communicator& comm) {
  const std::vector<std::int64_t> mine{std::ssize(part.ids), std::ssize(part.tokens),
                                       std::ssize(part.text), part.longest, part.widest};
  const auto sizes = comm.all_gather_v<std::int64_t>(mine);
  PartSizes before, all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto one =
        std::span(sizes).subspan(static_cast<std::size_t>(rank) * mine.size(), mine.size());
    if (rank < comm.rank()) before.add(one);
    all.add(one);
  }
  std::vector<ArraySpec> arrays{{"tokens", ElementType::int32, {all.tokens}},
                                {"offsets", ElementType::int64, {all.documents + 1}},
                                {"ids", ElementType::string, {all.documents}, all.widest}};
  if (texts == Texts::keep) {
    arrays.push_back({"text", ElementType::uint8, {all.text}});
    arrays.push_back({"text_offsets", ElementType::int64, {all.documents + 1}});
  }
  MatrixFileWriter file(path, comm, arrays,
                        {{"format", "gpuhpc token shard"},
                         {"tokenizer", tokenizer.fingerprint()},
                         {"vocabulary", std::to_string(tokenizer.vocabulary_size())}});
  run_collectively(comm, [&] {
    if (part.ids.empty()) return;
    file.write_rows<std::int32_t>("tokens", before.tokens, part.tokens);
    write_ends(file, "offsets", before.documents, before.tokens, part.ends);
    file.write_strings("ids", before.documents, part.ids);
    if (texts == Texts::leave) return;
    file.write_rows<std::uint8_t>(
        "text", before.text,
        {reinterpret_cast<const std::uint8_t*>(part.text.data()), part.text.size()});
    write_ends(file, "text_offsets", before.documents, before.text, part.text_ends);
  });
  file.commit();
  return {all.documents, all.tokens, all.longest, ""};
}

// Removes what an earlier run left: the manifest first, so that a half-replaced folder is never
// taken for a whole one.
void clear_folder(const fs::path& folder) {
  create_folder(folder);
  remove_file(folder / manifest_name);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("shard-") && (name.ends_with(".h5") || name.ends_with(".h5.tmp")))
      remove_file(entry.path());
  }
}

}  // namespace

void declare(config::Section& section, ShardOptions& options) {
  section.option("shard-documents", options.shard_documents, "documents per token shard")
      .range(1, 1e9);
  section.option("shard-megabytes", options.shard_megabytes, "most text per token shard")
      .range(1, 4096)
      .unit("MiB");
}

ShardSummary prepare_shards(const CorpusScan& corpus, const Tokenizer& tokenizer,
                            const fs::path& folder, const ShardOptions& options, Texts texts,
                            Communicator& comm, int threads,
                            const std::function<void(std::int64_t)>& progress) {
  return prepare_shards(corpus, tokenizer, std::span(&folder, 1), options, texts, comm, threads,
                        progress);
}

ShardSummary prepare_shards(const CorpusScan& corpus, const Tokenizer& tokenizer,
                            std::span<const fs::path> folders, const ShardOptions& options,
                            Texts texts, Communicator& comm, int threads,
                            const std::function<void(std::int64_t)>& progress) {
  std::unique_ptr<CorpusBlocks> blocks;
  run_collectively(comm, [&] { blocks = std::make_unique<CorpusBlocks>(corpus); });
  const auto clear = [&] { std::ranges::for_each(folders, clear_folder); };
  on_root(comm, clear);
  std::vector<ShardManifest> manifests(
      folders.size(), {tokenizer.fingerprint(), tokenizer.vocabulary_size(), {}, ""});
  ShardSummary summary;
  try {
    for (const Range& shard : cut_shards(corpus, options)) {
      const Range mine = blocks_of_rank(shard.size(), comm.rank(), comm.size());
      std::vector<ShardPart> parts(folders.size());
      run_collectively(comm, [&] {
        std::vector<Document> documents;
        for (std::int64_t block = shard.first + mine.first; block < shard.first + mine.last;
             ++block) {
          documents.clear();
          blocks->read(block, documents);
          for (std::size_t i = 0; i < parts.size(); ++i)
            parts[i].add(tokenizer, documents,
                         corpus.options.rows ? std::optional(i) : std::nullopt,
                         texts == Texts::keep, threads);
          if (progress) progress(std::ssize(documents));
        }
      });
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const ShardEntry entry =
            write_shard(folders[i] / shard_name(summary.shards), parts[i], tokenizer, texts, comm);
        manifests[i].shards.push_back(entry);
        if (i == 0) summary.documents += entry.documents;
        summary.tokens += entry.tokens;
        summary.longest = std::max(summary.longest, entry.longest);
      }
      ++summary.shards;
    }
    on_root(comm, [&] {
      for (std::size_t i = 0; i < folders.size(); ++i) {
        for (std::int64_t shard = 0; shard < summary.shards; ++shard)
          manifests[i].shards[static_cast<std::size_t>(shard)].head =
              head_fingerprint(folders[i] / shard_name(shard));
        write_manifest(folders[i] / manifest_name, body_of(manifests[i]));
      }
    });
  } catch (...) {  // on all ranks alike, and none writes any more
    if (comm.is_root()) clear();
    throw;
  }
  return summary;
}

struct TokenDataset::Shard {
  explicit Shard(const fs::path& path)
      : file(path),
        tokens(file.dataset<std::int32_t>("tokens")),
        offsets(file.dataset<std::int64_t>("offsets")),
        ids(file.strings("ids")) {
    if (!file.has("text")) return;
    text = file.dataset<std::uint8_t>("text");
    text_offsets = file.dataset<std::int64_t>("text_offsets");
  }
  // Documents and their tokens, and their texts when there are any, fit each other.
  bool sound(const ShardEntry& entry) const {
    const auto fits = [&](std::span<const std::int64_t> list, std::size_t end) {
      return std::ssize(list) == entry.documents + 1 && list.front() == 0 &&
             list.back() == static_cast<std::int64_t>(end) &&
             std::is_sorted(list.begin(), list.end());
    };
    return entry.documents > 0 && ids.size() == entry.documents &&
           std::ssize(tokens) == entry.tokens && fits(offsets, tokens.size()) &&
           (text_offsets.empty() || fits(text_offsets, text.size()));
  }
  Hdf5File file;
  std::span<const std::int32_t> tokens;   // (T)
  std::span<const std::int64_t> offsets;  // (documents + 1)
  StringColumn ids;
  std::span<const std::uint8_t> text;
  std::span<const std::int64_t> text_offsets;  // (documents + 1), empty: no texts
};

TokenDataset::TokenDataset(const fs::path& folder) : folder_(folder) {
  const ShardManifest manifest = read_shard_manifest(folder);
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    const ShardEntry& entry = manifest.shards[i];
    const fs::path path = folder / shard_name(static_cast<std::int64_t>(i));
    if (!fs::exists(path))
      throw input_error("{}: the shard is missing; run `gpuhpc prepare` again", path.string());
    if (head_fingerprint(path) != entry.head)
      throw input_error("{}: the shard is not the one of the manifest; run `gpuhpc prepare` again",
                        path.string());
    auto shard = std::make_unique<Shard>(path);
    if (!shard->sound(entry))
      throw input_error(
          "{}: tokens, offsets and ids do not fit each other; run `gpuhpc prepare` again",
          path.string());
    shards_.push_back(std::move(shard));
    first_.push_back(first_.back() + entry.documents);
    token_count_ += entry.tokens;
  }
  if (shards_.empty())
    throw input_error("{}: there are no shards in it; run `gpuhpc prepare` again", folder.string());
  shard_documents_ = manifest.shards.front().documents;
  vocabulary_size_ = manifest.vocabulary;
  tokenizer_fingerprint_ = manifest.tokenizer;
  fingerprint_ = manifest.fingerprint;
}

TokenDataset::~TokenDataset() = default;
TokenDataset::TokenDataset(TokenDataset&&) noexcept = default;
TokenDataset& TokenDataset::operator=(TokenDataset&&) noexcept = default;

void TokenDataset::expect_random_reads() const {
  for (const auto& shard : shards_) shard->file.expect_random_reads();
}

const TokenDataset::Shard& TokenDataset::shard_of(std::int64_t document,
                                                  std::int64_t& local) const {
  // Shards are of equal size unless long texts ended one early: guess, then look.
  auto guess =
      static_cast<std::size_t>(std::min(document / shard_documents_, std::ssize(shards_) - 1));
  if (document < first_[guess] || document >= first_[guess + 1]) {
    guess = static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), document) -
                                     first_.begin()) -
            1;
  }
  local = document - first_[guess];
  return *shards_[guess];
}

std::span<const std::int32_t> TokenDataset::tokens(std::int64_t document) const {
  std::int64_t local = 0;
  const Shard& shard = shard_of(document, local);
  const auto begin = static_cast<std::size_t>(shard.offsets[static_cast<std::size_t>(local)]);
  const auto end = static_cast<std::size_t>(shard.offsets[static_cast<std::size_t>(local) + 1]);
  return shard.tokens.subspan(begin, end - begin);
}

std::span<const std::int32_t> TokenDataset::sound_tokens(std::int64_t document) const {
  const auto all = tokens(document);
  for (const std::int32_t token : all)
    if (token < 0 || token >= vocabulary_size_) {
      std::int64_t local = 0;
      const Shard* const shard = &shard_of(document, local);
      const auto number = std::ranges::find_if(
          shards_, [&](const std::unique_ptr<Shard>& one) { return one.get() == shard; });
      throw input_error(
          "{}: document {} ({}): token {} is none of the {} of the tokenizer: the shard is "
          "damaged; "
          "run the same command with --pipeline.force for the stage that made it, or `gpuhpc "
          "prepare`, again",
          (folder_ / shard_name(number - shards_.begin())).string(), document, id(document), token,
          vocabulary_size_);
    }
  return all;
}

std::string_view TokenDataset::id(std::int64_t document) const {
  std::int64_t local = 0;
  const Shard& shard = shard_of(document, local);
  return shard.ids[local];
}

std::string_view TokenDataset::text(std::int64_t document) const {
  std::int64_t local = 0;
  const Shard& shard = shard_of(document, local);
  if (shard.text_offsets.empty())
    throw internal_error("{}: these shards were made without texts", folder_.string());
  const auto begin = static_cast<std::size_t>(shard.text_offsets[static_cast<std::size_t>(local)]);
  const auto end =
      static_cast<std::size_t>(shard.text_offsets[static_cast<std::size_t>(local) + 1]);
  return {reinterpret_cast<const char*>(shard.text.data()) + begin, end - begin};
}

void TokenDataset::check_tokenizer(const Tokenizer& tokenizer) const {
  if (tokenizer.fingerprint() != tokenizer_fingerprint_) {
    throw input_error(
        "{}: these shards were made by another tokenizer ({}, the model has {}); run `gpuhpc "
        "prepare` with this model again",
        folder_.string(), tokenizer_fingerprint_, tokenizer.fingerprint());
  }
}

}  // namespace gpuhpc
