#pragma once
// Phrases of a corpus by frequency and pointwise mutual information (Church and Hanks 1990),
// counted level by level (Agrawal and Srikant 1994): a phrase of n words is counted only when both
// its phrases of n-1 words are frequent, so memory follows the frequent phrases, not the corpus.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/text/words.hpp"

namespace gpuhpc {

struct PhraseOptions {
  std::int64_t longest = 4;          // words
  std::int64_t least_documents = 5;  // a phrase occurs in at least so many
  double least_pmi = 3.0;            // bits; words alone pass
  // a phrase found to this share inside one longer phrase is left out; 1: kept unless always inside
  double nested_share = 0.9;
  std::int64_t most = 0;  // phrases given, the most frequent first; 0: all
};
// phrases.longest, phrases.least-documents, phrases.least-pmi, phrases.nested-share, phrases.most
void declare(config::Section& section, PhraseOptions& options);

struct Phrase {
  std::string text;  // lower case, one space between words
  std::int64_t words = 0, count = 0, documents = 0;
  // log2 p(phrase) / (p(head) p(tail)), the least over its splits; 0 for a word alone
  double pmi = 0;
};

// for (; !miner.done(); miner.finish_level(partials of all ranks)) for (text : my documents)
// miner.count(text); The result does not depend on how documents were spread.
class PhraseMiner {
 public:
  explicit PhraseMiner(PhraseOptions options = {});
  ~PhraseMiner();
  PhraseMiner(PhraseMiner&&) noexcept;

  bool done() const;
  std::int64_t level() const;  // words of the phrases counted now, from 1
  void count(std::string_view text);
  std::string partial() const;  // counts of this level as bytes, to be gathered
  void finish_level(std::span<const std::string> partials);
  void finish_level();  // this miner saw all documents
  // Most documents first, then by text. Stop words (English), numbers and single letters stand at
  // neither end.
  std::vector<Phrase> phrases() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::vector<Phrase> mine_phrases(std::span<const std::string> texts,
                                 const PhraseOptions& options = {});

// Finds given phrases in texts by the words that PhraseWords splits.
class PhraseFinder {
 public:
  // Phrase i has the id i; phrases without a word are never found. Of equal phrases the first is
  // found.
  explicit PhraseFinder(std::span<const std::string> phrases);
  // Ids of all occurrences (nested ones too), by place; returns the number of words of the text.
  std::int64_t find(std::string_view text, std::vector<std::int32_t>& ids);

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> word_ids_;
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // (node << 32 | word) -> node
  std::vector<std::int32_t> found_at_;                      // node -> phrase, -1: none
  PhraseWords words_;
  std::vector<std::uint32_t> numbers_;
};

}  // namespace gpuhpc
