#include "token_trie.hpp"

#include <algorithm>

namespace gpuhpc {

void TokenTrie::grow(std::size_t size) {
  if (nodes_.size() < size) nodes_.resize(std::max(size, nodes_.size() + nodes_.size() / 2));
}

// The lowest place where all children find a free node. Full regions are left behind for good.
std::uint32_t TokenTrie::find_base(const std::vector<unsigned char>& bytes) {
  const auto is_free = [&](std::size_t i) { return nodes_[i].parent == no_parent; };
  std::size_t seen = 0, taken = 0;
  for (std::size_t place = std::max<std::size_t>(first_free_, std::size_t{bytes.front()} + 1);;
       ++place) {
    grow(place + 512);
    ++seen;
    if (!is_free(place)) {
      ++taken;
      continue;
    }
    const std::size_t base = place - bytes.front();
    if (!std::all_of(bytes.begin(), bytes.end(),
                     [&](unsigned char b) { return is_free(base + b); }))
      continue;
    if (seen > 64 && taken * 20 >= seen * 19) first_free_ = place;
    return static_cast<std::uint32_t>(base);
  }
}

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, std::int32_t>> tokens) {
  std::sort(tokens.begin(), tokens.end());
  grow(512);
  std::vector<Range> open{{0, 0, tokens.size(), 0}};
  std::vector<unsigned char> bytes;
  std::vector<std::size_t> starts;
  while (!open.empty()) {
    auto [node, first, last, depth] = open.back();
    open.pop_back();
    if (first < last && tokens[first].first.size() == depth)
      nodes_[node].id = tokens[first++].second;
    if (first == last) continue;
    bytes.clear(), starts.clear();
    for (std::size_t i = first; i < last; ++i) {
      const auto byte = static_cast<unsigned char>(tokens[i].first[depth]);
      if (bytes.empty() || bytes.back() != byte) bytes.push_back(byte), starts.push_back(i);
    }
    starts.push_back(last);
    const std::uint32_t base = find_base(bytes);
    nodes_[node].base = base;
    for (const unsigned char b : bytes) nodes_[base + b].parent = node;
    for (std::size_t i = bytes.size(); i-- > 0;)
      open.push_back({base + bytes[i], starts[i], starts[i + 1], depth + 1});
  }
}

}  // namespace gpuhpc
