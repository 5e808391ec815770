// Tokenizer files of Hugging Face folders: what we can follow exactly is read, everything else is refused by name.
#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "characters.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/text/wordpiece.hpp"

namespace gpuhpc {
namespace {

namespace fs = std::filesystem;

// Members of one JSON object, with errors that say where they stand.
class Members {
 public:
  Members(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw input_error("{}: expected an object, found {}", where_, object.type_name());
  }
  const std::string& where() const { return where_; }
  bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }
  const Json& at(const char* key) const {
    if (!has(key)) throw input_error("{}: \"{}\" is missing; take the file of the model again", where_, key);
    return object_[key];
  }
  bool boolean(const char* key) const {
    if (!at(key).is_boolean()) throw input_error("{}: \"{}\" must be true or false, found {}", where_, key, at(key).type_name());
    return object_[key].get<bool>();
  }
  bool boolean(const char* key, bool absent) const { return has(key) ? boolean(key) : absent; }
  std::string text(const char* key) const {
    if (!at(key).is_string()) throw input_error("{}: \"{}\" must be a string, found {}", where_, key, at(key).type_name());
    return object_[key].get<std::string>();
  }
  Members object(const char* key) const { return {at(key), where_ + ": " + key}; }
  const Json& array(const char* key) const {
    if (!at(key).is_array()) throw input_error("{}: \"{}\" must be an array, found {}", where_, key, at(key).type_name());
    return object_[key];
  }
  // The part named `key`, which must be of this type.
  Members typed(const char* key, const char* type, const char* cure) const {
    if (!has(key)) throw input_error("{}: there is no {}; only {} is supported: {}", where_, key, type, cure);
    const Members part = object(key);
    const std::string found = part.text("type");
    if (found != type) throw input_error("{}: {} \"{}\" is not supported, only \"{}\" is: {}", where_, key, found, type, cure);
    return part;
  }

 private:
  const Json& object_;
  std::string where_;
};

constexpr const char* cure = "use a model of the BERT family with WordPiece";

std::int32_t checked_id(const Json& value, const std::string& where, const std::string& token) {
  constexpr std::int64_t limit = 100'000'000;  // no word table is larger; keeps sums of ids far from overflow
  const bool good = value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() < limit);
  if (!good || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() >= limit) {
    throw input_error("{}: the id of token \"{}\" must be a whole number from 0 to {}", where, token, limit - 1);
  }
  return value.get<std::int32_t>();
}

// A token is written as a string, or as an object with its content and flags.
std::string token_text(const Members& members, const char* key, const std::string& absent) {
  if (!members.has(key)) return absent;
  return members.at(key).is_object() ? members.object(key).text("content") : members.text(key);
}

void read_names(const Members& config, WordPieceSettings& settings) {
  settings.unk_token = token_text(config, "unk_token", settings.unk_token);
  settings.cls_token = token_text(config, "cls_token", settings.cls_token);
  settings.sep_token = token_text(config, "sep_token", settings.sep_token);
  settings.pad_token = token_text(config, "pad_token", settings.pad_token);
  settings.mask_token = token_text(config, "mask_token", settings.mask_token);
}

AddedToken read_added(const Members& token, std::int32_t id) {
  AddedToken result{token.text("content"), id, token.boolean("single_word", false), token.boolean("lstrip", false), token.boolean("rstrip", false)};
  if (token.boolean("normalized", !token.boolean("special", false))) {
    throw input_error("{}: added token \"{}\" is looked for in normalised text (\"normalized\": true), which is not supported; "
                      "save the tokenizer with \"normalized\": false", token.where(), result.content);
  }
  return result;
}

// Hugging Face gives an added token the id it has in the vocabulary, or the next free one: the file must agree.
void check_added_ids(std::vector<AddedToken>& added, const std::vector<VocabularyEntry>& vocabulary, const std::string& where) {
  std::erase_if(added, [](const AddedToken& token) { return token.content.empty(); });
  std::unordered_map<std::string_view, std::int32_t> ids;
  for (const auto& [token, id] : vocabulary) ids.emplace(token, id);
  std::set<std::string_view> seen;
  auto next = static_cast<std::int64_t>(vocabulary.size());
  std::int64_t highest = -1;
  for (const AddedToken& token : added) {
    if (!seen.insert(token.content).second) throw input_error("{}: added token \"{}\" stands twice; keep one", where, token.content);
    const auto known = ids.find(token.content);
    const std::int64_t expected = known != ids.end() ? known->second : std::max(next, highest + 1);
    if (token.id != expected) {
      throw input_error("{}: added token \"{}\" has the id {}, but its place in the vocabulary is {}; save the tokenizer again", where,
                        token.content, token.id, expected);
    }
    highest = std::max(highest, expected);
  }
}

// [CLS] A [SEP] is what our encoders are given; the names may differ.
void read_post_processor(const Members& root, WordPieceSettings& settings) {
  if (!root.has("post_processor")) return;
  const Members part = root.object("post_processor");
  const std::string type = part.text("type");
  const std::string where = part.where();
  if (type == "BertProcessing") {
    for (auto [key, name] : {std::pair{"cls", &settings.cls_token}, {"sep", &settings.sep_token}}) {
      const Json& pair = part.array(key);
      if (pair.size() != 2 || !pair[0].is_string()) throw input_error("{}: \"{}\" must be a token and its id", where, key);
      *name = pair[0].get<std::string>();
    }
    return;
  }
  if (type != "TemplateProcessing") throw input_error("{}: \"{}\" is not supported, only BertProcessing and TemplateProcessing are: {}", where, type, cure);
  const Json& single = part.array("single");
  const auto special = [&](std::size_t i) { return Members(single[i], where + ": single").object("SpecialToken").text("id"); };
  const bool shape = single.size() == 3 && single[0].contains("SpecialToken") && single[1].contains("Sequence") && single[2].contains("SpecialToken");
  if (!shape) throw input_error("{}: the template for one text must be [CLS] text [SEP]: {}", where, cure);
  settings.cls_token = special(0);
  settings.sep_token = special(2);
}

void read_normalizer(const Members& root, WordPieceSettings& settings) {
  const Members part = root.typed("normalizer", "BertNormalizer", cure);
  NormalizerSettings& n = settings.normalizer;
  n.clean_text = part.boolean("clean_text");
  n.handle_chinese_chars = part.boolean("handle_chinese_chars");
  n.lowercase = part.boolean("lowercase");
  n.strip_accents = part.boolean("strip_accents", n.lowercase);
}

std::unique_ptr<WordPieceTokenizer> from_json(const Json& file, WordPieceSettings settings, const std::string& where) {
  const Members root(file, where);
  const Members model = root.typed("model", "WordPiece", cure);
  read_normalizer(root, settings);
  root.typed("pre_tokenizer", "BertPreTokenizer", cure);
  read_post_processor(root, settings);
  settings.unk_token = model.text("unk_token");
  settings.continuing_subword_prefix = model.text("continuing_subword_prefix");
  if (model.has("max_input_chars_per_word")) {
    const Json& longest = model.at("max_input_chars_per_word");
    if (!longest.is_number_integer() || longest < 1 || longest > 1'000'000) {
      throw input_error("{}: \"max_input_chars_per_word\" must be a whole number from 1 to 1000000", model.where());
    }
    settings.max_input_chars_per_word = longest.get<std::int64_t>();
  }
  const Members vocabulary_members = model.object("vocab");
  if (model.at("vocab").empty()) throw input_error("{}: the vocabulary is empty; take the file of the model again", where);
  std::vector<VocabularyEntry> vocabulary;
  for (const auto& [token, id] : model.at("vocab").items()) vocabulary.push_back({token, checked_id(id, vocabulary_members.where(), token)});
  std::vector<AddedToken> added;
  if (root.has("added_tokens")) {
    for (const Json& entry : root.array("added_tokens")) {
      const Members token(entry, where + ": added_tokens");
      added.push_back(read_added(token, checked_id(token.at("id"), token.where(), token.text("content"))));
    }
  }
  check_added_ids(added, vocabulary, where);
  return std::make_unique<WordPieceTokenizer>(std::move(vocabulary), std::move(added), std::move(settings), where);
}

std::vector<VocabularyEntry> read_vocabulary(std::string_view text, const std::string& where) {
  std::vector<VocabularyEntry> vocabulary;
  std::int32_t line = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view token = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // White space at the end goes, as in Hugging Face's reader; all of it is ASCII or ends in a byte above 0x7F.
    for (bool trimmed = true; trimmed && !token.empty();) {
      trimmed = false;
      for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(3, token.size()) && !trimmed; ++bytes) {
        std::size_t at = token.size() - bytes;
        const char32_t c = next_code_point(token, at);
        if (at == token.size() && c != replacement_character && is_white_space(c)) token.remove_suffix(bytes), trimmed = true;
      }
    }
    if (token.empty()) throw input_error("{}:{}: an empty line in the vocabulary; take the file of the model again", where, line + 1);
    vocabulary.push_back({std::string(token), line++});
  }
  return vocabulary;
}

WordPieceSettings settings_from_config(const Json& config, const std::string& where) {
  const Members members(config, where);
  WordPieceSettings settings;
  read_names(members, settings);
  NormalizerSettings& n = settings.normalizer;
  n.lowercase = members.boolean("do_lower_case", true);
  n.handle_chinese_chars = members.boolean("tokenize_chinese_chars", true);
  n.strip_accents = members.boolean("strip_accents", n.lowercase);
  if (!members.boolean("do_basic_tokenize", true)) throw input_error("{}: \"do_basic_tokenize\": false is not supported", where);
  if (members.has("never_split") && !members.array("never_split").empty()) throw input_error("{}: \"never_split\" is not supported", where);
  return settings;
}

std::vector<AddedToken> special_tokens(const std::vector<VocabularyEntry>& vocabulary, const WordPieceSettings& settings) {
  std::vector<AddedToken> added;
  for (const std::string& name : {settings.unk_token, settings.sep_token, settings.pad_token, settings.cls_token, settings.mask_token}) {
    const auto place = std::find_if(vocabulary.begin(), vocabulary.end(), [&](const VocabularyEntry& entry) { return entry.token == name; });
    const bool known = std::any_of(added.begin(), added.end(), [&](const AddedToken& token) { return token.content == name; });
    if (place != vocabulary.end() && !known && !name.empty()) added.push_back({name, place->id});
  }
  return added;
}

}  // namespace

std::unique_ptr<WordPieceTokenizer> parse_tokenizer_json(std::string_view json, const std::string& where) {
  return from_json(parse_json(json, where), WordPieceSettings{}, where);
}

std::unique_ptr<WordPieceTokenizer> parse_vocabulary(std::string_view text, const WordPieceSettings& settings, const std::string& where) {
  auto vocabulary = read_vocabulary(text, where);
  auto added = special_tokens(vocabulary, settings);
  return std::make_unique<WordPieceTokenizer>(std::move(vocabulary), std::move(added), settings, where);
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& model_folder) {
  const fs::path json = model_folder / "tokenizer.json", vocabulary = model_folder / "vocab.txt", config = model_folder / "tokenizer_config.json";
  const Json settings = fs::exists(config) ? read_json(config) : Json::object();
  if (fs::exists(json)) {
    WordPieceSettings names;
    read_names(Members(settings, config.string()), names);
    return from_json(read_json(json), names, json.string());
  }
  if (!fs::exists(vocabulary)) {
    throw io_error("{}: there is neither tokenizer.json nor vocab.txt; give the folder of a model", model_folder.string());
  }
  const fs::path more = model_folder / "added_tokens.json";
  if (fs::exists(more)) throw input_error("{}: extra tokens beside vocab.txt are not supported; save the tokenizer as tokenizer.json", more.string());
  return parse_vocabulary(read_text_file(vocabulary), settings_from_config(settings, config.string()), vocabulary.string());
}

}  // namespace gpuhpc
