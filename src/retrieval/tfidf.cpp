#include "gpuhpc/retrieval/tfidf.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/text/words.hpp"

namespace gpuhpc {
namespace {

// Hashes of all n-grams of a text, in text order, repeated as often as they occur.
class TermHasher {
 public:
  explicit TermHasher(const TfidfOptions& options) : options_(options) {}
  std::vector<std::uint64_t>& hash(std::string_view text);

 private:
  TfidfOptions options_;
  TermWords splitter_;
  std::vector<std::string_view> kept_;
  std::string term_;
  std::vector<std::uint64_t> hashes_;
};

std::vector<std::uint64_t>& TermHasher::hash(std::string_view text) {
  kept_.clear();
  hashes_.clear();
  for (const std::string_view word : splitter_.split(text)) {
    if (!options_.english_stop_words || !is_term_stop_word(word)) kept_.push_back(word);
  }
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    term_.clear();
    const std::size_t last =
        std::min(kept_.size(), i + static_cast<std::size_t>(options_.longest_ngram));
    for (std::size_t j = i; j < last; ++j) {
      if (j > i) term_ += ' ';
      term_ += kept_[j];
      hashes_.push_back(term_hash(term_));
    }
  }
  return hashes_;
}

}  // namespace

std::uint64_t term_hash(std::string_view term) {
  const std::uint64_t hash = XXH3_64bits(term.data(), term.size());
  return hash == 0 ? 1 : hash;  // 0 marks a free slot of the counting table
}

void DocumentFrequencies::grow() {
  std::vector<std::uint64_t> slots(std::max<std::size_t>(1024, slots_.size() * 2));
  std::vector<std::int32_t> counts(slots.size());
  slots.swap(slots_);
  counts.swap(counts_);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == 0) continue;
    std::size_t at = slots[i] & mask;
    while (slots_[at] != 0) at = (at + 1) & mask;
    slots_[at] = slots[i];
    counts_[at] = counts[i];
  }
}

void DocumentFrequencies::count(std::uint64_t term, std::int64_t documents) {
  if (static_cast<std::size_t>(used_) * 3 >= slots_.size() * 2) grow();
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = term & mask;
  while (slots_[at] != 0 && slots_[at] != term) at = (at + 1) & mask;
  if (slots_[at] == 0) {
    slots_[at] = term;
    ++used_;
  }
  counts_[at] += static_cast<std::int32_t>(documents);
}

void DocumentFrequencies::add(std::string_view text) {
  TermHasher hasher(options_);
  auto& hashes = hasher.hash(text);
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  for (const std::uint64_t term : hashes) count(term, 1);
  ++documents_;
}

void DocumentFrequencies::add(std::span<const std::string> texts, int threads) {
  // One part of the texts per thread: sums of integers, so the split cannot show.
  std::vector<DocumentFrequencies> parts(static_cast<std::size_t>(std::max(1, threads)),
                                         DocumentFrequencies(options_));
  const auto total = std::ssize(texts);
  const auto count_of_parts = std::ssize(parts);
  parallel_for(0, count_of_parts, threads, [&](std::int64_t part, int) {
    DocumentFrequencies& mine = parts[static_cast<std::size_t>(part)];
    TermHasher hasher(options_);
    for (auto i = total * part / count_of_parts; i < total * (part + 1) / count_of_parts; ++i) {
      auto& hashes = hasher.hash(texts[static_cast<std::size_t>(i)]);
      std::sort(hashes.begin(), hashes.end());
      hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
      for (const std::uint64_t term : hashes) mine.count(term, 1);
      ++mine.documents_;
    }
  });
  for (DocumentFrequencies& part : parts) {
    documents_ += part.documents_;
    for (std::size_t i = 0; i < part.slots_.size(); ++i) {
      if (part.slots_[i] != 0) count(part.slots_[i], part.counts_[i]);
    }
    part = DocumentFrequencies(options_);  // frees its table before the next one is merged
  }
}

std::vector<DocumentFrequencies::Entry> DocumentFrequencies::entries() const {
  std::vector<Entry> all;
  all.reserve(static_cast<std::size_t>(used_));
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] != 0) all.push_back({slots_[i], counts_[i]});
  }
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.term < b.term; });
  return all;
}

std::vector<std::int64_t> DocumentFrequencies::pack() const {
  std::vector<std::int64_t> packed{documents_, used_};
  packed.reserve(2 + 2 * static_cast<std::size_t>(used_));
  for (const Entry& entry : entries()) {
    packed.push_back(static_cast<std::int64_t>(entry.term));
    packed.push_back(entry.documents);
  }
  return packed;
}

void DocumentFrequencies::merge(std::span<const std::int64_t> packed) {
  // Several pack()s one behind the other (what an all-gather gives) are all taken.
  for (std::size_t at = 0; at < packed.size();) {
    if (packed.size() - at < 2 || packed[at + 1] < 0 ||
        static_cast<std::uint64_t>(packed[at + 1]) > (packed.size() - at - 2) / 2) {
      throw internal_error("packed document frequencies end in the middle of an entry");
    }
    documents_ += packed[at];
    const auto entries = static_cast<std::size_t>(packed[at + 1]);
    at += 2;
    for (std::size_t i = 0; i < entries; ++i, at += 2)
      count(static_cast<std::uint64_t>(packed[at]), packed[at + 1]);
  }
}

void declare(config::Section& section, TfidfOptions& options) {
  section.option("ngrams", options.longest_ngram, "longest run of words that is a term")
      .range(1, 5);
  section.option("stop-words", options.english_stop_words, "leave ordinary English words out");
  section.option("min-documents", options.min_documents, "drop terms that fewer documents have")
      .range(1, 1e9);
  section
      .option("max-document-share", options.max_document_share,
              "drop terms that a larger share of the documents has")
      .range(0, 1);
}

TfidfModel::TfidfModel(const DocumentFrequencies& frequencies) : options_(frequencies.options()) {
  const double documents = static_cast<double>(frequencies.documents());
  for (const auto& entry : frequencies.entries()) {
    const double df = static_cast<double>(entry.documents);
    if (entry.documents < options_.min_documents || df > options_.max_document_share * documents)
      continue;
    terms_.push_back(entry.term);
    idf_.push_back(static_cast<float>(std::log((1 + documents) / (1 + df)) + 1));
  }
  build_buckets();
}

TfidfModel::TfidfModel(TfidfOptions options, std::vector<std::uint64_t> terms,
                       std::vector<float> idf)
    : options_(options), terms_(std::move(terms)), idf_(std::move(idf)) {
  if (terms_.size() != idf_.size()) {
    throw input_error(
        "the stored TF-IDF model has {} terms but {} idf values; make the model again",
        terms_.size(), idf_.size());
  }
  if (std::adjacent_find(terms_.begin(), terms_.end(), std::greater_equal<>()) != terms_.end()) {
    throw input_error(
        "the terms of the stored TF-IDF model are not ascending; make the model again");
  }
  build_buckets();
}

TfidfModel TfidfModel::fit(std::span<const std::string> texts, const TfidfOptions& options,
                           int threads) {
  DocumentFrequencies frequencies(options);
  frequencies.add(texts, threads);
  return TfidfModel(frequencies);
}

void TfidfModel::build_buckets() {
  bucket_bits_ = std::bit_width(terms_.size());
  buckets_.assign((std::size_t{1} << bucket_bits_) + 1, 0);
  for (const std::uint64_t term : terms_)
    ++buckets_[(bucket_bits_ == 0 ? 0 : term >> (64 - bucket_bits_)) + 1];
  for (std::size_t i = 1; i < buckets_.size(); ++i) buckets_[i] += buckets_[i - 1];
}

std::int64_t TfidfModel::column(std::uint64_t term) const {
  if (terms_.empty()) return -1;
  const std::size_t bucket = bucket_bits_ == 0 ? 0 : term >> (64 - bucket_bits_);
  for (std::int64_t i = buckets_[bucket]; i < buckets_[bucket + 1]; ++i) {
    if (terms_[static_cast<std::size_t>(i)] == term) return i;
  }
  return -1;
}

namespace {

// Appends the row of one text.
void append_row(const TfidfModel& model, TermHasher& hasher, std::string_view text,
                std::vector<std::int32_t>& columns, SparseMatrix& out) {
  columns.clear();
  for (const std::uint64_t term : hasher.hash(text)) {
    const std::int64_t column = model.column(term);
    if (column >= 0) columns.push_back(static_cast<std::int32_t>(column));
  }
  std::sort(columns.begin(), columns.end());
  const std::size_t first = out.values.size();
  double squares = 0;
  for (std::size_t i = 0; i < columns.size();) {
    std::size_t j = i;
    while (j < columns.size() && columns[j] == columns[i]) ++j;
    const double weight = (1 + std::log(static_cast<double>(j - i))) *
                          static_cast<double>(model.idf()[static_cast<std::size_t>(columns[i])]);
    squares += weight * weight;
    out.columns.push_back(columns[i]);
    out.values.push_back(static_cast<float>(weight));
    i = j;
  }
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (std::size_t i = first; i < out.values.size(); ++i)
    out.values[i] = static_cast<float>(out.values[i] * scale);
  out.offsets.push_back(static_cast<std::int64_t>(out.values.size()));
}

}  // namespace

SparseMatrix TfidfModel::transform(std::span<const std::string> texts, int threads) const {
  const std::int64_t total = std::ssize(texts);
  const std::int64_t count_of_parts = std::max<std::int64_t>(1, threads);
  std::vector<SparseMatrix> parts(static_cast<std::size_t>(count_of_parts));
  parallel_for(0, count_of_parts, threads, [&](std::int64_t part, int) {
    SparseMatrix& mine = parts[static_cast<std::size_t>(part)];
    TermHasher hasher(options_);
    std::vector<std::int32_t> columns;
    for (auto i = total * part / count_of_parts; i < total * (part + 1) / count_of_parts; ++i) {
      append_row(*this, hasher, texts[static_cast<std::size_t>(i)], columns, mine);
    }
  });
  SparseMatrix all = std::move(parts[0]);
  all.columns_count = size();
  for (std::size_t p = 1; p < parts.size(); ++p) {
    parts[p].columns_count = size();
    all = stack_rows(std::move(all), parts[p]);
    parts[p] = {};
  }
  return all;
}

SparseMatrix stack_rows(SparseMatrix top, const SparseMatrix& bottom) {
  if (top.columns_count != bottom.columns_count) {
    throw internal_error("rows of {} and {} columns cannot be stacked", top.columns_count,
                         bottom.columns_count);
  }
  const std::int64_t entries = top.offsets.back();
  top.columns.insert(top.columns.end(), bottom.columns.begin(), bottom.columns.end());
  top.values.insert(top.values.end(), bottom.values.begin(), bottom.values.end());
  for (std::size_t i = 1; i < bottom.offsets.size(); ++i)
    top.offsets.push_back(entries + bottom.offsets[i]);
  return top;
}

}  // namespace gpuhpc
