#pragma once
// TF-IDF over word 1..n-grams, numerically scikit-learn's TfidfVectorizer (smooth idf, sublinear
// tf, l2 rows). Terms are known by their 64-bit hash only, so a corpus of millions of documents
// needs a few bytes a term; columns are numbered by ascending hash, the same on any number of
// ranks.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

struct TfidfOptions {
  static constexpr const char* section = "tfidf";
  std::int64_t longest_ngram = 2;   // words a term, at most
  bool english_stop_words = true;   // left out before the n-grams are formed
  std::int64_t min_documents = 2;   // terms of fewer documents are dropped
  double max_document_share = 0.2;  // terms in more than this share of the documents are dropped
};
// Keys ngrams, stop-words, min-documents, max-document-share.
void declare(config::Section& section, TfidfOptions& options);

// Hash of a term (text/words.hpp splits them); words of an n-gram are joined by one space. Equal on
// every machine.
std::uint64_t term_hash(std::string_view term);

// In how many documents each term occurs: a partial result that ranks merge (the sum does not
// depend on order).
class DocumentFrequencies {
 public:
  struct Entry {
    std::uint64_t term;
    std::int64_t documents;
  };
  explicit DocumentFrequencies(TfidfOptions options = {}) : options_(options) {}
  void add(std::string_view text);  // counts one document
  void add(std::span<const std::string> texts, int threads = 1);
  std::int64_t documents() const { return documents_; }
  std::int64_t terms() const { return used_; }
  const TfidfOptions& options() const { return options_; }

  // What a rank sends: flat 64-bit words (documents, then term and count of each entry, ascending
  // by term).
  std::vector<std::int64_t> pack() const;
  void merge(std::span<const std::int64_t> packed);  // adds another rank's pack()
  std::vector<Entry> entries() const;                // ascending by term

 private:
  void count(std::uint64_t term, std::int64_t documents);
  void grow();
  TfidfOptions options_;
  std::int64_t documents_ = 0, used_ = 0;
  std::vector<std::uint64_t> slots_;  // open addressing; 0 = free (hash 0 is kept as 1)
  std::vector<std::int32_t> counts_;
};

class TfidfModel {
 public:
  TfidfModel() = default;
  explicit TfidfModel(const DocumentFrequencies& frequencies);
  // From stored arrays: terms ascending, idf of each. Throws input_error when they do not fit each
  // other.
  TfidfModel(TfidfOptions options, std::vector<std::uint64_t> terms, std::vector<float> idf);
  static TfidfModel fit(std::span<const std::string> texts, const TfidfOptions& options = {},
                        int threads = 1);

  std::int64_t size() const { return static_cast<std::int64_t>(terms_.size()); }
  const std::vector<std::uint64_t>& terms() const {
    return terms_;
  }                                                       // hashes, ascending: column order
  const std::vector<float>& idf() const { return idf_; }  // ln((1+n)/(1+df)) + 1
  const TfidfOptions& options() const { return options_; }
  std::int64_t column(std::uint64_t term) const;  // -1: not a column

  // One row a text: (1 + ln tf) idf, rows of unit length (a text without known terms gives an empty
  // row).
  SparseMatrix transform(std::span<const std::string> texts, int threads = 1) const;

 private:
  void build_buckets();
  TfidfOptions options_;
  std::vector<std::uint64_t> terms_;
  std::vector<float> idf_;
  std::vector<std::int64_t> buckets_;  // first column of each leading-bits bucket
  int bucket_bits_ = 0;
};

// Rows of `bottom` behind the rows of `top` (ranks' pieces in rank order); equal column counts.
SparseMatrix stack_rows(SparseMatrix top, const SparseMatrix& bottom);

}  // namespace gpuhpc
