#pragma once
// Plain words of a text, for phrases and terms (not for the encoder): lower-case letters, digits
// and marks; an apostrophe, hyphen, plus, sharp or dot inside a word stays ("e-mail", "node.js"),
// as do "+" and "#" at its end ("c++", "c#").
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuhpc {

class Words {
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

}  // namespace gpuhpc
