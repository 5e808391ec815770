#pragma once
// BM25 of phrases over groups of documents (a class's sub-corpus taken as one document), as TELEClass uses it for
// distinctiveness. Formula of rank_bm25's BM25Okapi (Robertson's idf, floored):
//   idf(t) = ln((N - n_t + .5) / (n_t + .5)), negative values replaced by epsilon * mean idf over terms,
//   score(t, g) = idf(t) * tf(t, g) (k1 + 1) / (tf(t, g) + k1 (1 - b + b * length(g) / mean length)),
// N = groups, n_t = groups with t.
#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

struct Bm25Options {
  double k1 = 1.5, b = 0.75, epsilon = 0.25;
};
void declare(config::Section& section, Bm25Options& options);  // keys bm25-k1, bm25-b, bm25-epsilon

// Phrase counts per group: integers that ranks add up with an all-reduce over counts(), documents() and lengths().
class GroupCounts {
 public:
  GroupCounts(std::int64_t groups, std::int64_t phrases);
  // One document of `group`: `phrases` = phrase ids, repeated as often as they occur; `length` = its words.
  void add(std::int64_t group, std::span<const std::int32_t> phrases, std::int64_t length);
  std::int64_t groups() const { return groups_; }
  std::int64_t phrases() const { return phrases_; }
  std::span<std::int32_t> counts() { return counts_; }        // (groups, phrases) occurrences
  std::span<std::int32_t> documents() { return documents_; }  // (groups, phrases) documents with the phrase
  std::span<std::int64_t> lengths() { return lengths_; }      // (groups) words
  std::int32_t count(std::int64_t group, std::int64_t phrase) const {
    return counts_[static_cast<std::size_t>(group * phrases_ + phrase)];
  }
  std::int32_t documents(std::int64_t group, std::int64_t phrase) const {
    return documents_[static_cast<std::size_t>(group * phrases_ + phrase)];
  }
  std::int64_t length(std::int64_t group) const { return lengths_[static_cast<std::size_t>(group)]; }

 private:
  std::int64_t groups_, phrases_;
  std::vector<std::int32_t> counts_, documents_;
  std::vector<std::int64_t> lengths_;
};

// Scores of every phrase in the groups of `family` (e.g. a class and its siblings: N = family size): (family, phrases).
Matrix bm25_scores(const GroupCounts& counts, std::span<const std::int32_t> family, const Bm25Options& options = {});

}  // namespace gpuhpc
