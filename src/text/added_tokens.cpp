#include "added_tokens.hpp"

#include <unicode/uchar.h>

#include <algorithm>

#include "characters.hpp"

namespace gpuhpc {
namespace {

// Word characters of Unicode 15.1 and 16, which the regex crate knows and ICU 72 does not.
constexpr char32_t younger_word_characters[][2] = {
    {0x897, 0x897},     {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},
    {0x105C0, 0x105F3}, {0x10D40, 0x10D65}, {0x10D69, 0x10D6D}, {0x10D6F, 0x10D85},
    {0x10EC2, 0x10EC4}, {0x10EFC, 0x10EFC}, {0x11380, 0x11389}, {0x1138B, 0x1138B},
    {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113C0}, {0x113C2, 0x113C2},
    {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D3}, {0x113E1, 0x113E2},
    {0x116D0, 0x116E3}, {0x11BC0, 0x11BE0}, {0x11BF0, 0x11BF9}, {0x11F5A, 0x11F5A},
    {0x13460, 0x143FA}, {0x16100, 0x16139}, {0x16D40, 0x16D6C}, {0x16D70, 0x16D79},
    {0x18CFF, 0x18CFF}, {0x1CCF0, 0x1CCF9}, {0x1E5D0, 0x1E5FA}, {0x2EBF0, 0x2EE5D},
};

// \w of the regex crate.
bool is_word_character(char32_t c) {
  const auto u = static_cast<UChar32>(c);
  for (const auto& [first, last] : younger_word_characters) {
    if (c >= first && c <= last) return true;
  }
  return u_isUAlphabetic(u) || u_hasBinaryProperty(u, UCHAR_JOIN_CONTROL) ||
         (U_GET_GC_MASK(u) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

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
