#include "gpuhpc/retrieval/tfidf.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/parallel.hpp"
#include "words.hpp"

namespace gpuhpc {

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
    : options_(std::move(options)), terms_(std::move(terms)), idf_(std::move(idf)) {
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
