#pragma once
// Plain words of a text (not for the encoder), by two rules that differ on purpose, and the stop
// words of each. A third, labels/lexical.hpp, splits the names of classes.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuhpc {

// For phrases: lower-case letters, digits and marks; an apostrophe, hyphen, plus, sharp or dot
// inside a word stays ("e-mail", "node.js"), as do "+" and "#" at its end ("c++", "c#").
class PhraseWords {
 public:
  // Replaces what was there. Bytes that are not UTF-8 separate words.
  void split(std::string_view text);
  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }
  // Punctuation other than / _ & * ' - stands before word i, or it is the first: no phrase goes
  // across.
  bool after_break(std::size_t i) const { return breaks_[i] != 0; }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_;
  std::vector<char> breaks_;
};

// Function words of English and the verbs of any description; `word` in lower case.
bool is_phrase_stop_word(std::string_view word);

// For TF-IDF, as scikit-learn's `(?u)\b\w\w+\b` has it: lower case (Unicode, root locale), then
// runs of two or more letters, digits or `_`. Broken UTF-8 separates words.
class TermWords {
 public:
  // Views into a buffer that lives until the next call.
  std::span<const std::string_view> split(std::string_view text);

 private:
  void split_ascii();
  void split_unicode();
  std::string lower_;
  std::vector<std::string_view> words_;
};

// The 318 words that TfidfVectorizer(stop_words="english") leaves out; its list is kept word for
// word, oddities too, so that features are equal.
bool is_term_stop_word(std::string_view word);

}  // namespace gpuhpc
