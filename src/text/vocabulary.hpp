#pragma once
// What all models ask of a vocabulary.
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpuhpc/text/wordpiece.hpp"

namespace gpuhpc {

// input_error: no entries, an empty token or one that is not UTF-8, a negative id, a token or an id
// twice.
void check_vocabulary(const std::vector<VocabularyEntry>& vocabulary, const std::string& where);

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

}  // namespace gpuhpc
