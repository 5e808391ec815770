#pragma once
// What the files of a tokenizer say, before names become ids.
#include <memory>
#include <string>
#include <vector>

#include "byte_bpe.hpp"
#include "cached_tokenizer.hpp"
#include "members.hpp"
#include "unigram.hpp"
#include "vocabulary.hpp"

namespace gpuhpc {

struct SpecialNames {  // empty: not said
  std::string cls, sep, pad, unk, mask;
};

// The texts A and B among special tokens.
struct TemplatePart {
  char text = 0;  // 'A' or 'B', 0: the special token of this name
  std::string token;
  std::int32_t segment = 0;
};
struct NamedTemplate {
  std::string cls, sep;            // around one text; empty: none
  std::vector<TemplatePart> pair;  // empty: [CLS] A [SEP] B [SEP] with these names
};
NamedTemplate bert_template(const std::string& cls, const std::string& sep);
NamedTemplate roberta_template(const std::string& cls, const std::string& sep);

// The file as JSON reads it.
NamedTemplate read_template(const Members& root);
AddedToken read_added(
    const Members& token,
    bool normalized);  // all but its id; `normalized`: where the file does not say
SpecialNames read_names(const Members& config);
std::int32_t checked_id(const Json& value, const std::string& where, const std::string& token);
// "left right", as in a line of merges.txt; "#version" lines are comments.
void add_merge(std::string_view line, std::vector<std::pair<std::string, std::string>>& merges,
               const std::string& where);
PairTemplate resolved(const NamedTemplate& named, const TokenIds& id_of, const std::string& where);

// Tokens, special or not, that HF looks for as they stand; names and template become ids of
// `vocabulary`.
struct TokenizerDescription {
  std::vector<NormalizerStep> normalizer;
  std::vector<AddedToken> added;
  SpecialNames names;
  NamedTemplate special;
};
std::unique_ptr<Tokenizer> make_tokenizer(const ByteBpeSettings& model,
                                          TokenizerDescription description,
                                          const std::string& where);
std::unique_ptr<Tokenizer> make_tokenizer(const UnigramSettings& model,
                                          TokenizerDescription description,
                                          const std::string& where);

// `config`: tokenizer_config.json, or an empty object.
std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& file, const Members& config,
                                               const std::string& where);

}  // namespace gpuhpc
