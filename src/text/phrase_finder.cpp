#include <algorithm>
#include <limits>

#include "gpuhpc/text/phrases.hpp"

namespace gpuhpc {
namespace {

constexpr std::uint32_t unknown = std::numeric_limits<std::uint32_t>::max();

// Function words of English and the verbs of any description. Sorted for binary search.
constexpr std::string_view stop_words[] = {
    "a",       "about",    "above",    "after",     "again",    "against",  "all",     "allow",
    "allows",  "also",     "although", "am",        "an",       "and",      "another", "any",
    "are",     "aren't",   "as",       "at",        "based",    "be",       "because", "been",
    "before",  "being",    "below",    "between",   "both",     "but",      "by",      "can",
    "can't",   "cannot",   "contain",  "contains",  "could",    "did",      "do",      "does",
    "doesn't", "doing",    "don't",    "down",      "during",   "e.g",      "each",    "either",
    "etc",     "even",     "every",    "few",       "for",      "from",     "further", "get",
    "had",     "has",      "have",     "having",    "he",       "her",      "here",    "hers",
    "him",     "his",      "how",      "however",   "i",        "i.e",      "if",      "in",
    "include", "included", "includes", "including", "into",     "is",       "isn't",   "it",
    "it's",    "its",      "itself",   "just",      "like",     "many",     "may",     "me",
    "might",   "more",     "most",     "much",      "must",     "my",       "neither", "no",
    "nor",     "not",      "of",       "off",       "often",    "on",       "once",    "one",
    "only",    "or",       "other",    "others",    "our",      "ours",     "out",     "over",
    "own",     "per",      "please",   "provide",   "provided", "provides", "rather",  "same",
    "several", "shall",    "she",      "should",    "since",    "so",       "some",    "such",
    "than",    "that",     "that's",   "the",       "their",    "theirs",   "them",    "themselves",
    "then",    "there",    "these",    "they",      "this",     "those",    "through", "thus",
    "to",      "too",      "under",    "until",     "up",       "upon",     "us",      "use",
    "used",    "uses",     "using",    "very",      "via",      "was",      "we",      "well",
    "were",    "what",     "when",     "where",     "whether",  "which",    "while",   "who",
    "whom",    "whose",    "why",      "will",      "with",     "within",   "without", "would",
    "yet",     "you",      "your",     "yours",     "yourself",
};
static_assert(std::is_sorted(std::begin(stop_words), std::end(stop_words)));

}  // namespace

bool is_stop_word(std::string_view word) {
  return std::binary_search(std::begin(stop_words), std::end(stop_words), word);
}

PhraseFinder::PhraseFinder(std::span<const std::string> phrases) : found_at_{-1} {
  for (std::size_t p = 0; p < phrases.size(); ++p) {
    words_.split(phrases[p]);
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const auto word =
          word_ids_.emplace(std::string(words_[i]), static_cast<std::uint32_t>(word_ids_.size()))
              .first->second;
      const auto [edge, fresh] = edges_.emplace(std::uint64_t{node} << 32 | word,
                                                static_cast<std::uint32_t>(found_at_.size()));
      if (fresh) found_at_.push_back(-1);
      node = edge->second;
    }
    if (node != 0 && found_at_[node] < 0) found_at_[node] = static_cast<std::int32_t>(p);
  }
}

std::int64_t PhraseFinder::find(std::string_view text, std::vector<std::int32_t>& ids) {
  words_.split(text);
  numbers_.resize(words_.size());
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const auto place = word_ids_.find(words_[i]);
    numbers_[i] = place == word_ids_.end() ? unknown : place->second;
  }
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    std::uint32_t node = 0;
    for (std::size_t k = i;
         k < numbers_.size() && numbers_[k] != unknown && (k == i || !words_.after_break(k)); ++k) {
      const auto edge = edges_.find(std::uint64_t{node} << 32 | numbers_[k]);
      if (edge == edges_.end()) break;
      node = edge->second;
      if (found_at_[node] >= 0) ids.push_back(found_at_[node]);
    }
  }
  return static_cast<std::int64_t>(words_.size());
}

}  // namespace gpuhpc
