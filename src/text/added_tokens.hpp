#pragma once
// Finds added tokens such as [SEP] in raw text: leftmost, longest, not overlapping.
#include <cstdint>
#include <string_view>
#include <vector>

#include "gpuhpc/text/wordpiece.hpp"
#include "token_trie.hpp"

namespace gpuhpc {

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Found {
    std::size_t begin, end;  // white space taken along included
    std::int32_t id;
  };
  // The first token at or after `from`; false: none. `from` is where the token before it ended.
  bool find(std::string_view text, std::size_t from, Found& found) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  std::size_t next_candidate(std::string_view text, std::size_t at) const;
  std::vector<AddedToken> tokens_;
  TokenTrie trie_;  // ids are places in tokens_
  std::vector<char> first_bytes_;
  bool begins_[256] = {};
};

}  // namespace gpuhpc
