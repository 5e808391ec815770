#include "vocabulary.hpp"

#include <unordered_set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/lines.hpp"

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

TokenIds::TokenIds(const std::vector<VocabularyEntry>& vocabulary,
                   const std::vector<AddedToken>& added) {
  for (const auto& token : added) ids_.emplace(token.content, token.id);
  for (const auto& [token, id] : vocabulary) ids_.emplace(token, id);
}

}  // namespace gpuhpc
