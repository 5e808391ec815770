#include "gpuhpc/data/token_shards.hpp"

#include <algorithm>
#include <cstdlib>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/hdf5.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "shard_manifest.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

// Cuts the stream of documents into shards; a function of the documents alone, so all ranks agree
// without a word.
class ShardCutter {
 public:
  explicit ShardCutter(const ShardOptions& options)
      : documents_limit_(options.shard_documents), bytes_limit_(options.shard_megabytes << 20) {}
  // True when `text` begins a new shard.
  bool next(std::string_view text) {
    const bool cut = documents_ == 0 || documents_ >= documents_limit_ || bytes_ >= bytes_limit_;
    if (cut) documents_ = bytes_ = 0;
    ++documents_;
    bytes_ += std::ssize(text);
    return cut;
  }

 private:
  std::int64_t documents_limit_, bytes_limit_, documents_ = 0, bytes_ = 0;
};

// One shard while it fills.
class ShardBuilder {
 public:
  ShardBuilder(const Tokenizer& tokenizer, fs::path folder)
      : tokenizer_(tokenizer), scratch_(tokenizer.make_scratch()), folder_(std::move(folder)) {}

  void add(Document document) {
    const std::int64_t before = std::ssize(tokens_);
    tokenizer_.encode_with(*scratch_, document.text, tokens_);
    longest_ = std::max(longest_, std::ssize(tokens_) - before);
    offsets_.push_back(std::ssize(tokens_));
    ids_.push_back(std::move(document.id));
  }

  // Writes the shard when there is one and starts afresh.
  void finish(std::int64_t shard, std::vector<std::int64_t>& written) {
    if (ids_.empty()) return;
    for (const auto token : tokens_) {
      if (token < 0 || token >= tokenizer_.vocabulary_size())
        throw internal_error("the tokenizer gave {}, its vocabulary has {}", token,
                             tokenizer_.vocabulary_size());
    }
    Hdf5Writer file(folder_ / shard_name(shard));
    file.attribute("format", "gpuhpc token shard");
    file.attribute("tokenizer", tokenizer_.fingerprint());
    file.attribute("vocabulary", std::to_string(tokenizer_.vocabulary_size()));
    file.dataset<std::int32_t>("tokens", tokens_);
    file.dataset<std::int64_t>("offsets", offsets_);
    file.strings("ids", ids_);
    file.commit();
    written.insert(written.end(), {shard, std::ssize(ids_), std::ssize(tokens_), longest_});
    tokens_.clear();
    offsets_.assign(1, 0);
    ids_.clear();
    longest_ = 0;
  }

 private:
  const Tokenizer& tokenizer_;
  std::unique_ptr<TokenizerScratch> scratch_;
  fs::path folder_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> offsets_{0};
  std::vector<std::string> ids_;
  std::int64_t longest_ = 0;
};

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

// Streams the corpus; returns (shard, documents, tokens, longest) of each shard written by this
// rank.
std::vector<std::int64_t> write_my_shards(CorpusReader& reader, const Tokenizer& tokenizer,
                                          const fs::path& folder, const ShardOptions& options,
                                          const Communicator& comm,
                                          const std::function<void(std::int64_t)>& progress) {
  constexpr std::int64_t progress_step = 1024;
  ShardCutter cutter(options);
  ShardBuilder builder(tokenizer, folder);
  std::vector<std::int64_t> written;
  std::int64_t shard = -1;
  Document document;
  while (reader.next(document)) {
    if (cutter.next(document.text)) {
      builder.finish(shard, written);
      ++shard;
    }
    if (shard % comm.size() == comm.rank()) builder.add(std::move(document));
    if (progress && reader.count() % progress_step == 0) progress(progress_step);
  }
  builder.finish(shard, written);
  if (progress) progress(reader.count() % progress_step);
  return written;
}

}  // namespace

void declare(config::Section& section, ShardOptions& options) {
  section.option("shard-documents", options.shard_documents, "documents per token shard")
      .range(1, 1e9);
  section.option("shard-megabytes", options.shard_megabytes, "most text per token shard")
      .range(1, 4096)
      .unit("MiB");
}

ShardSummary prepare_shards(const fs::path& corpus, const CorpusOptions& corpus_options,
                            const Tokenizer& tokenizer, const fs::path& folder,
                            const ShardOptions& options, Communicator& comm,
                            const std::function<void(std::int64_t)>& progress) {
  if (corpus == "-" && comm.size() > 1) {
    throw configuration_error(
        "standard input can be read by one rank only, {} were started; give a file or start one "
        "rank",
        comm.size());
  }
  std::unique_ptr<CorpusReader> reader;
  together(comm, [&] {
    reader = std::make_unique<CorpusReader>(corpus, corpus_options);
  });  // before anything old is removed
  on_root(comm, [&] { clear_folder(folder); });
  std::vector<std::int64_t> written;
  try {
    together(comm, [&] {
      written = write_my_shards(*reader, tokenizer, folder, options, comm, progress);
    });
  } catch (...) {  // on all ranks alike, and none writes any more
    if (comm.is_root()) clear_folder(folder);
    throw;
  }
  const auto all = comm.all_gather_vector<std::int64_t>(written);

  ShardSummary summary;
  summary.shards = std::ssize(all) / 4;
  ShardManifest manifest{tokenizer.fingerprint(), tokenizer.vocabulary_size(),
                         std::vector<ShardEntry>(static_cast<std::size_t>(summary.shards)), ""};
  for (std::size_t i = 0; i < all.size(); i += 4) {
    manifest.shards[static_cast<std::size_t>(all[i])] = {all[i + 1], all[i + 2], all[i + 3], ""};
    summary.documents += all[i + 1];
    summary.tokens += all[i + 2];
    summary.longest = std::max(summary.longest, all[i + 3]);
  }
  on_root(comm, [&] {
    for (std::int64_t i = 0; i < summary.shards; ++i)
      manifest.shards[static_cast<std::size_t>(i)].head = head_fingerprint(folder / shard_name(i));
    write_manifest(folder, manifest);
  });
  return summary;
}

struct TokenDataset::Shard {
  Shard(const fs::path& path, Hdf5File::Verify verify)
      : file(path, verify),
        tokens(file.dataset<std::int32_t>("tokens")),
        offsets(file.dataset<std::int64_t>("offsets")),
        ids(file.strings("ids")) {}
  Hdf5File file;
  std::span<const std::int32_t> tokens;   // (T)
  std::span<const std::int64_t> offsets;  // (documents + 1)
  StringColumn ids;
};

TokenDataset::TokenDataset(const fs::path& folder, Verify verify) : folder_(folder) {
  const ShardManifest manifest = read_manifest(folder);
  const auto mode = verify == Verify::all ? Hdf5File::Verify::all : Hdf5File::Verify::structure;
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    const ShardEntry& entry = manifest.shards[i];
    const fs::path path = folder / shard_name(static_cast<std::int64_t>(i));
    if (!fs::exists(path))
      throw input_error("{}: the shard is missing; run `gpuhpc prepare` again", path.string());
    if (head_fingerprint(path) != entry.head)
      throw input_error("{}: the shard is not the one of the manifest; run `gpuhpc prepare` again",
                        path.string());
    auto shard = std::make_unique<Shard>(path, mode);
    const bool sound = std::ssize(shard->offsets) == entry.documents + 1 &&
                       shard->ids.size() == entry.documents && entry.documents > 0 &&
                       std::ssize(shard->tokens) == entry.tokens && shard->offsets.front() == 0 &&
                       shard->offsets.back() == entry.tokens &&
                       std::is_sorted(shard->offsets.begin(), shard->offsets.end());
    if (!sound)
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

std::string_view TokenDataset::id(std::int64_t document) const {
  std::int64_t local = 0;
  const Shard& shard = shard_of(document, local);
  return shard.ids[local];
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
