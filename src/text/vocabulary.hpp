#pragma once
// Tokens and their ids: the checks that all models ask for, the trie that finds tokens in text, and
// added tokens such as [SEP], which are found before the text is cut into words.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpuhpc {

struct VocabularyEntry {
  std::string token;
  std::int32_t id = 0;
};

// A token that is recognised as it stands, before the text is cut into words.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;
  bool normalized = false;  // looked for in the normalised text, else in the raw text
  bool special = false;     // no text: decode may leave it out
};

// input_error: no entries, an empty token or one that is not UTF-8, a negative id, a token or an id
// twice.
void check_vocabulary(const std::vector<VocabularyEntry>& vocabulary, const std::string& where);

// 32 hex digits over the entries in the order of their ids.
std::string print_of(const std::vector<VocabularyEntry>& vocabulary);

// Id of a token by its name, -1: there is none. Added tokens come first. Views into both.
class TokenIds {
 public:
  TokenIds(const std::vector<VocabularyEntry>& vocabulary, const std::vector<AddedToken>& added);
  std::int32_t operator()(std::string_view token) const {
    const auto place = ids_.find(token);
    return place == ids_.end() ? -1 : place->second;
  }

 private:
  std::unordered_map<std::string_view, std::int32_t> ids_;
};

// Longest match over bytes in a double-array trie (Aoe 1989): one load a byte.
class TokenTrie {
 public:
  struct Match {
    std::int32_t id = -1;    // -1: no token starts here
    std::size_t length = 0;  // bytes
  };

  TokenTrie() : TokenTrie(std::vector<std::pair<std::string_view, std::int32_t>>{}) {}
  // Tokens are distinct and not empty, ids not negative.
  explicit TokenTrie(std::vector<std::pair<std::string_view, std::int32_t>> tokens);

  Match longest(const char* text, std::size_t length) const {
    Match match;
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < length; ++i) {
      const std::uint32_t next = nodes_[node].base + static_cast<unsigned char>(text[i]);
      if (nodes_[next].parent != node) break;
      node = next;
      if (nodes_[node].id >= 0) match = {nodes_[node].id, i + 1};
    }
    return match;
  }

  // Calls found(id, length) for every token that `text` begins with, the shortest first.
  template <typename Found>
  void prefixes(const char* text, std::size_t length, Found&& found) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < length; ++i) {
      const std::uint32_t next = nodes_[node].base + static_cast<unsigned char>(text[i]);
      if (nodes_[next].parent != node) return;
      node = next;
      if (nodes_[node].id >= 0) found(nodes_[node].id, i + 1);
    }
  }

 private:
  static constexpr std::uint32_t no_parent = std::numeric_limits<std::uint32_t>::max();
  struct Node {
    std::uint32_t base = 0;  // children stand at base + byte
    std::uint32_t parent = no_parent;
    std::int32_t id = -1;
  };
  struct Range {  // tokens [first, last) share the `depth` bytes that lead to `node`
    std::uint32_t node;
    std::size_t first, last, depth;
  };
  void grow(std::size_t size);
  std::uint32_t find_base(const std::vector<unsigned char>& bytes);

  std::vector<Node> nodes_{
      Node{0, 0, -1}};  // always 256 beyond the last base, so a walk needs no bound
  std::size_t first_free_ = 1;
};

// Finds added tokens in text: leftmost, longest, not overlapping.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Found {
    std::size_t begin, end;  // white space taken along included
    std::int32_t id;
  };
  // The first token at or after `from`; false: none. `from` is where the token before it ended.
  bool find(std::string_view text, std::size_t from, Found& found) const;
  // Whether the text's normalised form may hold one: no when all of it is plain ASCII without a
  // token's first byte.
  bool may_be_in(std::string_view text) const;

 private:
  std::size_t next_candidate(std::string_view text, std::size_t at) const;
  std::vector<AddedToken> tokens_;
  TokenTrie trie_;  // ids are places in tokens_
  std::vector<char> first_bytes_;
  bool begins_[256] = {};
};

}  // namespace gpuhpc
