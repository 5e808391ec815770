#include "vocabulary.hpp"

#include <algorithm>
#include <unordered_set>

#include "characters.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"

namespace gpuhpc {

void check_vocabulary(const std::vector<VocabularyEntry>& vocabulary, const std::string& where) {
  if (vocabulary.empty())
    throw input_error("{}: the vocabulary is empty; take the file of the model again", where);
  std::unordered_set<std::string_view> tokens;
  std::unordered_set<std::int32_t> ids;
  for (const auto& [token, id] : vocabulary) {
    if (token.empty())
      throw input_error("{}: the token with id {} is empty; take the file of the model again",
                        where, id);
    if (find_invalid_utf8(token) != std::string_view::npos)
      throw input_error("{}: the token with id {} is not UTF-8", where, id);
    if (id < 0) throw input_error("{}: token \"{}\" has the negative id {}", where, token, id);
    if (!tokens.insert(token).second)
      throw input_error("{}: token \"{}\" stands twice in the vocabulary; keep one", where, token);
    if (!ids.insert(id).second)
      throw input_error("{}: id {} is given to two tokens, one is \"{}\"", where, id, token);
  }
}

std::string print_of(const std::vector<VocabularyEntry>& vocabulary) {
  std::vector<const VocabularyEntry*> sorted;
  for (const auto& entry : vocabulary) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->id < b->id; });
  Fingerprint print;
  for (const auto* entry : sorted) print.add(entry->token).add(std::int64_t{entry->id});
  return print.hex();
}

TokenIds::TokenIds(const std::vector<VocabularyEntry>& vocabulary,
                   const std::vector<AddedToken>& added) {
  for (const auto& token : added) ids_.emplace(token.content, token.id);
  for (const auto& [token, id] : vocabulary) ids_.emplace(token, id);
}

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

namespace {

// Where the character before `position` begins; position > 0.
std::size_t character_before(std::string_view text, std::size_t position) {
  for (std::size_t back = std::min<std::size_t>(4, position); back > 1; --back) {
    std::size_t at = position - back;
    if (next_code_point(text, at) != replacement_character && at == position)
      return position - back;
  }
  return position - 1;
}

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  std::size_t at = character_before(text, text.size());
  return is_word_character(next_code_point(text, at));
}

bool starts_with_word(std::string_view text) {
  std::size_t at = 0;
  return !text.empty() && is_word_character(next_code_point(text, at));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    entries.emplace_back(tokens_[i].content, static_cast<std::int32_t>(i));
    const auto first = static_cast<unsigned char>(tokens_[i].content.front());
    if (!begins_[first]) first_bytes_.push_back(tokens_[i].content.front());
    begins_[first] = true;
  }
  trie_ = TokenTrie(std::move(entries));
}

std::size_t AddedTokens::next_candidate(std::string_view text, std::size_t at) const {
  if (first_bytes_.empty() || at >= text.size()) return std::string_view::npos;
  if (first_bytes_.size() == 1) return text.find(first_bytes_[0], at);
  while (at < text.size() && !begins_[static_cast<unsigned char>(text[at])]) ++at;
  return at < text.size() ? at : std::string_view::npos;
}

bool AddedTokens::may_be_in(std::string_view text) const {
  if (first_bytes_.empty()) return false;
  if (begins_[std::uint8_t{' '}]) return true;  // white space of other kinds may become a space
  return std::any_of(text.begin(), text.end(), [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || begins_[byte] || (c >= 'A' && c <= 'Z' && begins_[byte | 0x20]);
  });
}

bool AddedTokens::find(std::string_view text, std::size_t from, Found& found) const {
  std::size_t at = next_candidate(text, from);
  while (at != std::string_view::npos) {
    const auto match = trie_.longest(text.data() + at, text.size() - at);
    if (match.id < 0) {
      at = next_candidate(text, at + 1);
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(match.id)];
    found = {at, at + match.length, token.id};
    if (token.single_word &&
        (ends_with_word(text.substr(0, at)) || starts_with_word(text.substr(found.end)))) {
      at = next_candidate(text, found.end);  // the search goes on after a match that does not count
      continue;
    }
    while (token.lstrip && found.begin > from) {
      const std::size_t before = character_before(text, found.begin);
      std::size_t next = before;
      if (before < from || !is_white_space(next_code_point(text, next))) break;
      found.begin = before;
    }
    while (token.rstrip && found.end < text.size()) {
      std::size_t next = found.end;
      if (!is_white_space(next_code_point(text, next))) break;
      found.end = next;
    }
    return true;
  }
  return false;
}

}  // namespace gpuhpc
