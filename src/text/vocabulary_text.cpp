// vocab.txt of BERT.
#include <algorithm>

#include "characters.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/text/wordpiece.hpp"

namespace gpuhpc {
namespace {

std::vector<VocabularyEntry> read_vocabulary(std::string_view text, const std::string& where) {
  std::vector<VocabularyEntry> vocabulary;
  std::int32_t line = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view token = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // White space at the end goes, as in Hugging Face's reader; all of it is ASCII or ends in a
    // byte above 0x7F.
    for (bool trimmed = true; trimmed && !token.empty();) {
      trimmed = false;
      for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(3, token.size()) && !trimmed;
           ++bytes) {
        std::size_t at = token.size() - bytes;
        const char32_t c = next_code_point(token, at);
        if (at == token.size() && c != replacement_character && is_white_space(c))
          token.remove_suffix(bytes), trimmed = true;
      }
    }
    if (token.empty())
      throw input_error("{}:{}: an empty line in the vocabulary; take the file of the model again",
                        where, line + 1);
    vocabulary.push_back({std::string(token), line++});
  }
  return vocabulary;
}

std::vector<AddedToken> special_tokens(const std::vector<VocabularyEntry>& vocabulary,
                                       const WordPieceSettings& settings) {
  std::vector<AddedToken> added;
  for (const std::string& name : {settings.unk_token, settings.sep_token, settings.pad_token,
                                  settings.cls_token, settings.mask_token}) {
    const auto place =
        std::find_if(vocabulary.begin(), vocabulary.end(),
                     [&](const VocabularyEntry& entry) { return entry.token == name; });
    const bool known = std::any_of(added.begin(), added.end(),
                                   [&](const AddedToken& token) { return token.content == name; });
    if (place != vocabulary.end() && !known && !name.empty()) added.push_back({name, place->id});
  }
  return added;
}

}  // namespace

std::unique_ptr<WordPieceTokenizer> parse_vocabulary(std::string_view text,
                                                     const WordPieceSettings& settings,
                                                     const std::string& where) {
  auto vocabulary = read_vocabulary(text, where);
  auto added = special_tokens(vocabulary, settings);
  return std::make_unique<WordPieceTokenizer>(std::move(vocabulary), std::move(added), settings,
                                              where);
}

}  // namespace gpuhpc
