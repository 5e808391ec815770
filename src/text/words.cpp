#include "gpuhpc/text/words.hpp"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <array>

#include "characters.hpp"
#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

enum class Kind { letter, joiner, tail, gap, punctuation };

constexpr Kind ascii_kind(char32_t c) {
  if ((c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9'))
    return Kind::letter;
  if (c == U'+' || c == U'#') return Kind::tail;
  if (c == U'\'' || c == U'-' || c == U'.') return Kind::joiner;
  if (c <= 0x20 || c == 0x7F || c == U'/' || c == U'_' || c == U'&' || c == U'*') return Kind::gap;
  return Kind::punctuation;
}

constexpr auto ascii_kinds = [] {
  std::array<Kind, 128> kinds{};
  for (char32_t c = 0; c < 128; ++c) kinds[c] = ascii_kind(c);
  return kinds;
}();

Kind kind_of(char32_t c) {
  if (c < 0x80) return ascii_kinds[c];
  const auto u = static_cast<UChar32>(c);
  if (c == replacement_character) return Kind::gap;
  if (u_isalnum(u) || (U_GET_GC_MASK(u) & U_GC_M_MASK) != 0) return Kind::letter;
  if (c == 0x2019 || c == 0x2010 || c == 0x2011) return Kind::joiner;
  return is_white_space(c) || (U_GET_GC_MASK(u) & U_GC_C_MASK) != 0 ? Kind::gap : Kind::punctuation;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_ascii_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

// What Python's `\w` takes: letters, everything numeric and `_`; combining marks are not words.
bool is_term_letter(char32_t c) {
  if (c < 0x80) return is_ascii_word(static_cast<char>(c));
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
}

}  // namespace

void PhraseWords::split(std::string_view text) {
  bytes_.clear(), ends_.clear(), breaks_.clear();
  bool in_word = false, broken = true;
  std::size_t before = 0;
  const auto put = [&](char32_t c) {
    char utf8[4];
    bytes_.append(utf8, static_cast<std::size_t>(put_code_point(c, utf8)));
  };
  const auto close = [&] {
    if (in_word) ends_.push_back(bytes_.size());
    in_word = false;
  };
  for (std::size_t at = 0; at < text.size();) {
    before = at;
    const char32_t c = next_code_point(text, at);
    const Kind kind = kind_of(c);
    if (kind == Kind::letter) {
      if (!in_word) breaks_.push_back(broken);
      in_word = true, broken = false;
      if (c < 0x80) {
        bytes_ += static_cast<char>(c >= U'A' && c <= U'Z' ? c + 0x20 : c);
        continue;
      }
      put(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
      continue;
    }
    if (in_word && kind == Kind::tail) {
      bytes_ += text[before];
      continue;
    }
    if (in_word && kind == Kind::joiner && at < text.size()) {
      std::size_t ahead = at;
      if (kind_of(next_code_point(text, ahead)) == Kind::letter) {
        put(c == 0x2019 ? U'\'' : c >= 0x80 ? U'-' : c);
        continue;
      }
    }
    close();
    broken |= kind == Kind::punctuation || c == U'.';
  }
  close();
}

std::span<const std::string_view> TermWords::split(std::string_view text) {
  words_.clear();
  lower_.clear();
  if (is_ascii(text)) {
    lower_.assign(text);
    for (char& c : lower_) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    }
    split_ascii();
  } else {
    UErrorCode status = U_ZERO_ERROR;
    icu::StringByteSink<std::string> sink(&lower_, static_cast<std::int32_t>(text.size()));
    icu::CaseMap::utf8ToLower("", 0,
                              icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())),
                              sink, nullptr, status);
    if (U_FAILURE(status))
      throw internal_error("ICU could not lower a text of {} bytes: {}", text.size(),
                           u_errorName(status));
    split_unicode();
  }
  return words_;
}

void TermWords::split_ascii() {
  const std::string_view all = lower_;
  std::size_t i = 0;
  while (i < all.size()) {
    while (i < all.size() && !is_ascii_word(all[i])) ++i;
    const std::size_t first = i;
    while (i < all.size() && is_ascii_word(all[i])) ++i;
    if (i - first >= 2) words_.push_back(all.substr(first, i - first));
  }
}

void TermWords::split_unicode() {
  const std::string_view all = lower_;
  std::size_t first = 0, letters = 0;
  const auto finish = [&](std::size_t last) {
    if (letters >= 2) words_.push_back(all.substr(first, last - first));
    letters = 0;
  };
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t begin = at;
    if (!is_term_letter(next_code_point(all, at))) {
      finish(begin);
    } else if (letters++ == 0) {
      first = begin;
    }
  }
  finish(all.size());
}

namespace {

// Both ascending.
constexpr std::string_view phrase_stop_words[] = {
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
static_assert(std::is_sorted(std::begin(phrase_stop_words), std::end(phrase_stop_words)));

constexpr std::array<std::string_view, 318> term_stop_words{
    "a",          "about",      "above",      "across",       "after",      "afterwards",
    "again",      "against",    "all",        "almost",       "alone",      "along",
    "already",    "also",       "although",   "always",       "am",         "among",
    "amongst",    "amoungst",   "amount",     "an",           "and",        "another",
    "any",        "anyhow",     "anyone",     "anything",     "anyway",     "anywhere",
    "are",        "around",     "as",         "at",           "back",       "be",
    "became",     "because",    "become",     "becomes",      "becoming",   "been",
    "before",     "beforehand", "behind",     "being",        "below",      "beside",
    "besides",    "between",    "beyond",     "bill",         "both",       "bottom",
    "but",        "by",         "call",       "can",          "cannot",     "cant",
    "co",         "con",        "could",      "couldnt",      "cry",        "de",
    "describe",   "detail",     "do",         "done",         "down",       "due",
    "during",     "each",       "eg",         "eight",        "either",     "eleven",
    "else",       "elsewhere",  "empty",      "enough",       "etc",        "even",
    "ever",       "every",      "everyone",   "everything",   "everywhere", "except",
    "few",        "fifteen",    "fifty",      "fill",         "find",       "fire",
    "first",      "five",       "for",        "former",       "formerly",   "forty",
    "found",      "four",       "from",       "front",        "full",       "further",
    "get",        "give",       "go",         "had",          "has",        "hasnt",
    "have",       "he",         "hence",      "her",          "here",       "hereafter",
    "hereby",     "herein",     "hereupon",   "hers",         "herself",    "him",
    "himself",    "his",        "how",        "however",      "hundred",    "i",
    "ie",         "if",         "in",         "inc",          "indeed",     "interest",
    "into",       "is",         "it",         "its",          "itself",     "keep",
    "last",       "latter",     "latterly",   "least",        "less",       "ltd",
    "made",       "many",       "may",        "me",           "meanwhile",  "might",
    "mill",       "mine",       "more",       "moreover",     "most",       "mostly",
    "move",       "much",       "must",       "my",           "myself",     "name",
    "namely",     "neither",    "never",      "nevertheless", "next",       "nine",
    "no",         "nobody",     "none",       "noone",        "nor",        "not",
    "nothing",    "now",        "nowhere",    "of",           "off",        "often",
    "on",         "once",       "one",        "only",         "onto",       "or",
    "other",      "others",     "otherwise",  "our",          "ours",       "ourselves",
    "out",        "over",       "own",        "part",         "per",        "perhaps",
    "please",     "put",        "rather",     "re",           "same",       "see",
    "seem",       "seemed",     "seeming",    "seems",        "serious",    "several",
    "she",        "should",     "show",       "side",         "since",      "sincere",
    "six",        "sixty",      "so",         "some",         "somehow",    "someone",
    "something",  "sometime",   "sometimes",  "somewhere",    "still",      "such",
    "system",     "take",       "ten",        "than",         "that",       "the",
    "their",      "them",       "themselves", "then",         "thence",     "there",
    "thereafter", "thereby",    "therefore",  "therein",      "thereupon",  "these",
    "they",       "thick",      "thin",       "third",        "this",       "those",
    "though",     "three",      "through",    "throughout",   "thru",       "thus",
    "to",         "together",   "too",        "top",          "toward",     "towards",
    "twelve",     "twenty",     "two",        "un",           "under",      "until",
    "up",         "upon",       "us",         "very",         "via",        "was",
    "we",         "well",       "were",       "what",         "whatever",   "when",
    "whence",     "whenever",   "where",      "whereafter",   "whereas",    "whereby",
    "wherein",    "whereupon",  "wherever",   "whether",      "which",      "while",
    "whither",    "who",        "whoever",    "whole",        "whom",       "whose",
    "why",        "will",       "with",       "within",       "without",    "would",
    "yet",        "you",        "your",       "yours",        "yourself",   "yourselves",
};
static_assert(std::ranges::is_sorted(term_stop_words));

}  // namespace

bool is_phrase_stop_word(std::string_view word) {
  return std::ranges::binary_search(phrase_stop_words, word);
}

bool is_term_stop_word(std::string_view word) {
  return std::ranges::binary_search(term_stop_words, word);
}

}  // namespace gpuhpc
