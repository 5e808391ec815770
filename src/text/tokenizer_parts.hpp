#pragma once
// What the files of a tokenizer say, before names become ids.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "decoder.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/text/bert_words.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "normalizers.hpp"
#include "vocabulary.hpp"

namespace gpuhpc {

// Members of one JSON object, with errors that say where they stand.
class Members {
 public:
  Members(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {
    if (!object.is_object())
      throw input_error("{}: expected an object, found {}", where_, object.type_name());
  }
  const std::string& where() const { return where_; }
  bool has(const char* key) const { return object_->contains(key) && !(*object_)[key].is_null(); }
  const Json& at(const char* key) const {
    if (!has(key))
      throw input_error("{}: \"{}\" is missing; take the file of the model again", where_, key);
    return (*object_)[key];
  }
  bool boolean(const char* key) const {
    if (!at(key).is_boolean())
      throw input_error("{}: \"{}\" must be true or false, found {}", where_, key,
                        at(key).type_name());
    return (*object_)[key].get<bool>();
  }
  bool boolean(const char* key, bool absent) const { return has(key) ? boolean(key) : absent; }
  std::string text(const char* key) const {
    if (!at(key).is_string())
      throw input_error("{}: \"{}\" must be a string, found {}", where_, key, at(key).type_name());
    return (*object_)[key].get<std::string>();
  }
  Members object(const char* key) const { return {at(key), where_ + ": " + key}; }
  const Json& array(const char* key) const {
    if (!at(key).is_array())
      throw input_error("{}: \"{}\" must be an array, found {}", where_, key, at(key).type_name());
    return (*object_)[key];
  }
  // The part named `key`, which must be of this type.
  Members typed(const char* key, const char* type, const char* cure) const {
    if (!has(key))
      throw input_error("{}: there is no {}; only {} is supported: {}", where_, key, type, cure);
    const Members part = object(key);
    const std::string found = part.text("type");
    if (found != type)
      throw input_error("{}: {} \"{}\" is not supported, only \"{}\" is: {}", where_, key, found,
                        type, cure);
    return part;
  }

 private:
  const Json* object_;
  std::string where_;
};

// BERT's WordPiece: BertNormalizer, BertPreTokenizer, greedy longest match (Wu et al. 2016, section
// 4.1).
struct WordPieceSettings {
  std::vector<VocabularyEntry> vocabulary;
  BertWordSettings words;
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  std::int64_t max_input_chars_per_word = 100;  // a longer word is one [UNK]
};

// Byte-level BPE of GPT-2 (Radford et al. 2019; merges: Sennrich et al. 2016).
struct ByteBpeSettings {
  std::vector<VocabularyEntry> vocabulary;  // bytes written as GPT-2 writes them: "Ġ" is a space
  std::vector<std::pair<std::string, std::string>> merges;
  std::string unk_token;          // of bytes that the vocabulary lacks; empty: they are dropped
  bool fuse_unk = false;          // unknown bytes in a row are one
  bool add_prefix_space = false;  // a text that begins with no space is given one
};

// Unigram model of SentencePiece (Kudo 2018).
struct UnigramSettings {
  std::vector<VocabularyEntry> vocabulary;  // ids 0, 1, 2, ...; "▁" stands for a space
  std::vector<double> scores;               // log-probabilities, one an entry
  std::int32_t unk_id = 0;
  bool split_white_space = false;  // all white space parts words, else spaces alone
  // a word at the begin is given a space (split_white_space: every word)
  bool add_prefix_space = true;
};

struct SpecialNames {  // empty: not said
  std::string cls, sep, pad, unk, mask, eos;
};
SpecialNames read_names(const Members& config);  // of tokenizer_config.json

// The texts A and B among special tokens. Nothing: the texts alone.
struct TemplatePart {
  char text = 0;  // 'A' or 'B', 0: the special token of this name
  std::string token;
  std::int32_t segment = 0;
};
struct NamedTemplates {
  std::vector<TemplatePart> single, pair;
};
NamedTemplates bert_templates(const std::string& cls, const std::string& sep);
NamedTemplates roberta_templates(const std::string& cls, const std::string& sep);

// Everything of a tokenizer but its model and the normaliser of WordPiece.
struct TokenizerDescription {
  std::vector<NormalizerStep> normalizer;
  std::vector<AddedToken> added;  // special or not
  SpecialNames names;
  NamedTemplates templates;
  TokenDecoder decoder;
};
// With ids equal to those of Hugging Face tokenizers 0.23. `where` names the file in errors.
// input_error: a vocabulary, merge, score or name that does not fit the rest.
std::unique_ptr<Tokenizer> make_tokenizer(WordPieceSettings model, TokenizerDescription description,
                                          const std::string& where);
std::unique_ptr<Tokenizer> make_tokenizer(ByteBpeSettings model, TokenizerDescription description,
                                          const std::string& where);
std::unique_ptr<Tokenizer> make_tokenizer(UnigramSettings model, TokenizerDescription description,
                                          const std::string& where);

// tokenizer.json; `config`: tokenizer_config.json, or an empty object.
std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& file, const Members& config,
                                               const std::string& where);
// Parts of it, each of which may be a Sequence; appended.
void read_normalizer(const Members& step, std::vector<NormalizerStep>& steps);
void read_decoder(const Members& step, std::vector<DecoderStep>& steps);
NamedTemplates read_templates(const Members& root);  // of the post_processor
// All but the id of an added token; `normalized`: where the file does not say.
AddedToken read_added(const Members& token, bool normalized);
std::int32_t checked_id(const Json& value, const std::string& where, const std::string& token);
// "left right", as in a line of merges.txt; "#version" lines are comments.
void add_merge(std::string_view line, std::vector<std::pair<std::string, std::string>>& merges,
               const std::string& where);

// A SentencePiece model file (spm.model, spiece.model): the few fields of its protocol buffer that
// a Unigram tokenizer needs. input_error: damaged, or not a Unigram model.
struct SentencePieceFile {
  enum class Type { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string token;
    double score = 0;
    Type type = Type::normal;
  };
  std::vector<Piece> pieces;  // in the order of their ids
  std::int32_t unk_id = 0;
  std::string charsmap;  // normalisation rules as Charsmap reads them; may be empty
};
SentencePieceFile parse_sentencepiece(std::string_view bytes, const std::string& where);

}  // namespace gpuhpc
