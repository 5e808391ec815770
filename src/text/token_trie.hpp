#pragma once
// Longest match over bytes in a double-array trie (Aoe 1989): one load a byte.
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuhpc {

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

}  // namespace gpuhpc
