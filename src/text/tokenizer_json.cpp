// tokenizer.json: what we can follow exactly is read, everything else is refused by name.
#include <set>
#include <tuple>
#include <unordered_map>

#include "tokenizer_parts.hpp"

namespace gpuhpc {
namespace {

constexpr const char* wordpiece_cure = "use a model of the BERT family with WordPiece";
constexpr const char* bpe_cure = "use a model with the byte-level BPE of GPT-2 or RoBERTa";
constexpr const char* unigram_cure =
    "use a model with the SentencePiece Unigram of DeBERTa v3, T5 or XLM-RoBERTa";

// Hugging Face gives an added token the id it has in the vocabulary, or the next free one: the file
// must agree.
void check_added_ids(std::vector<AddedToken>& added, const std::vector<VocabularyEntry>& vocabulary,
                     const std::string& where) {
  std::erase_if(added, [](const AddedToken& token) { return token.content.empty(); });
  std::unordered_map<std::string_view, std::int32_t> ids;
  for (const auto& [token, id] : vocabulary) ids.emplace(token, id);
  std::set<std::string_view> seen;
  auto next = static_cast<std::int64_t>(vocabulary.size());
  std::int64_t highest = -1;
  for (const AddedToken& token : added) {
    if (!seen.insert(token.content).second)
      throw input_error("{}: added token \"{}\" stands twice; keep one", where, token.content);
    const auto known = ids.find(token.content);
    const std::int64_t expected = known != ids.end() ? known->second : std::max(next, highest + 1);
    if (token.id != expected) {
      throw input_error(
          "{}: added token \"{}\" has the id {}, but its place in the vocabulary is {}; save the "
          "tokenizer again",
          where, token.content, token.id, expected);
    }
    highest = std::max(highest, expected);
  }
}

std::vector<AddedToken> read_added_tokens(const Members& root,
                                          const std::vector<VocabularyEntry>& vocabulary) {
  std::vector<AddedToken> added;
  if (root.has("added_tokens")) {
    for (const Json& entry : root.array("added_tokens")) {
      const Members token(entry, root.where() + ": added_tokens");
      added.push_back(read_added(token, !token.boolean("special", false)));
      added.back().id = checked_id(token.at("id"), token.where(), token.text("content"));
    }
  }
  check_added_ids(added, vocabulary, root.where());
  return added;
}

std::vector<VocabularyEntry> read_vocabulary(const Members& model, const std::string& where) {
  const Members members = model.object("vocab");
  if (model.at("vocab").empty())
    throw input_error("{}: the vocabulary is empty; take the file of the model again", where);
  std::vector<VocabularyEntry> vocabulary;
  for (const auto& [token, id] : model.at("vocab").items())
    vocabulary.push_back({token, checked_id(id, members.where(), token)});
  return vocabulary;
}

TokenizerDescription read_description(const Members& root, const Members& config,
                                      const std::vector<VocabularyEntry>& vocabulary) {
  TokenizerDescription description;
  description.added = read_added_tokens(root, vocabulary);
  description.names = read_names(config);
  if (root.has("post_processor")) description.templates = read_templates(root);
  if (root.has("decoder")) {
    description.decoder.given = true;
    read_decoder(root.object("decoder"), description.decoder.steps);
  }
  return description;
}

void refuse_if(bool given, const Members& model, const char* key, const char* cure) {
  if (given) throw input_error("{}: \"{}\" is not supported: {}", model.where(), key, cure);
}

std::vector<std::pair<std::string, std::string>> read_merges(const Members& model) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Json& entry : model.array("merges")) {
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      merges.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
      continue;
    }
    if (!entry.is_string())
      throw input_error("{}: merges: every merge must be two tokens, found {}", model.where(),
                        entry.dump().substr(0, 80));
    add_merge(entry.get<std::string>(), merges, model.where() + ": merges");
  }
  return merges;
}

// transformers' tokenizers of BERT and MPNet go by tokenizer_config.json where it says something
// else than tokenizer.json.
void refuse_other_words(const BertWordSettings& words, const Members& normalizer,
                        const Members& config) {
  const std::string of = config.has("tokenizer_class") ? config.text("tokenizer_class") : "Bert";
  if (of.find("Bert") == of.npos && of.find("MPNet") == of.npos) return;
  const std::tuple<const char*, const char*, bool> settings[] = {
      {"do_lower_case", "lowercase", words.lowercase},
      {"strip_accents", "strip_accents", words.strip_accents},
      {"tokenize_chinese_chars", "handle_chinese_chars", words.handle_chinese_chars}};
  for (const auto& [name, here, value] : settings)
    if (config.boolean(name, value) != value)
      throw input_error(
          "{}: \"{}\" is {}, and {} says otherwise (\"{}\"): Python would follow the one or the "
          "other by its version; make both say the same",
          config.where(), name, !value, normalizer.where(), here);
}

std::unique_ptr<Tokenizer> wordpiece_from_json(const Members& root, const Members& model,
                                               const Members& config, const std::string& where) {
  WordPieceSettings settings;
  const Members normalizer = root.typed("normalizer", "BertNormalizer", wordpiece_cure);
  BertWordSettings& w = settings.words;
  w.clean_text = normalizer.boolean("clean_text");
  w.handle_chinese_chars = normalizer.boolean("handle_chinese_chars");
  w.lowercase = normalizer.boolean("lowercase");
  w.strip_accents = normalizer.boolean("strip_accents", w.lowercase);
  refuse_other_words(w, normalizer, config);
  root.typed("pre_tokenizer", "BertPreTokenizer", wordpiece_cure);
  settings.unk_token = model.text("unk_token");
  settings.continuing_subword_prefix = model.text("continuing_subword_prefix");
  if (model.has("max_input_chars_per_word")) {
    const Json& longest = model.at("max_input_chars_per_word");
    if (!longest.is_number_integer() || longest < 1 || longest > 1'000'000) {
      throw input_error("{}: \"max_input_chars_per_word\" must be a whole number from 1 to 1000000",
                        model.where());
    }
    settings.max_input_chars_per_word = longest.get<std::int64_t>();
  }
  settings.vocabulary = read_vocabulary(model, where);
  auto description = read_description(root, config, settings.vocabulary);
  if (!root.has("post_processor")) {  // older files of BERT
    const SpecialNames& names = description.names;
    description.templates = bert_templates(names.cls.empty() ? "[CLS]" : names.cls,
                                           names.sep.empty() ? "[SEP]" : names.sep);
  }
  return make_tokenizer(std::move(settings), std::move(description), where);
}

std::unique_ptr<Tokenizer> bpe_from_json(const Members& root, const Members& model,
                                         const Members& config, const std::string& where) {
  const auto not_empty = [&](const char* key) {
    return model.has(key) && !model.text(key).empty();
  };
  refuse_if(model.has("dropout") && model.at("dropout") != 0, model, "dropout", bpe_cure);
  refuse_if(not_empty("continuing_subword_prefix"), model, "continuing_subword_prefix", bpe_cure);
  refuse_if(not_empty("end_of_word_suffix"), model, "end_of_word_suffix", bpe_cure);
  refuse_if(model.boolean("byte_fallback", false), model, "byte_fallback", bpe_cure);
  refuse_if(model.boolean("ignore_merges", false), model, "ignore_merges", bpe_cure);
  ByteBpeSettings settings;
  const Members words = root.typed("pre_tokenizer", "ByteLevel", bpe_cure);
  settings.add_prefix_space = words.boolean("add_prefix_space");
  refuse_if(!words.boolean("use_regex", true), words, "use_regex", bpe_cure);
  settings.vocabulary = read_vocabulary(model, where);
  settings.merges = read_merges(model);
  if (model.has("unk_token")) settings.unk_token = model.text("unk_token");
  settings.fuse_unk = model.boolean("fuse_unk", false);
  auto description = read_description(root, config, settings.vocabulary);
  if (root.has("normalizer")) read_normalizer(root.object("normalizer"), description.normalizer);
  return make_tokenizer(std::move(settings), std::move(description), where);
}

// Metaspace, alone or after WhitespaceSplit.
void read_pre_tokenizer(const Members& root, UnigramSettings& settings) {
  if (!root.has("pre_tokenizer"))
    throw input_error("{}: there is no pre_tokenizer; only Metaspace is supported: {}",
                      root.where(), unigram_cure);
  const Members part = root.object("pre_tokenizer");
  std::vector<Members> steps{part};
  if (part.text("type") == "Sequence") {
    steps.clear();
    for (const Json& step : part.array("pretokenizers")) steps.emplace_back(step, part.where());
  }
  settings.split_white_space = steps.size() == 2 && steps[0].text("type") == "WhitespaceSplit";
  if (steps.empty() || steps.size() != (settings.split_white_space ? 2u : 1u) ||
      steps.back().text("type") != "Metaspace") {
    throw input_error("{}: only Metaspace, alone or after WhitespaceSplit, is supported: {}",
                      part.where(), unigram_cure);
  }
  const Members& step = steps.back();
  if (step.text("replacement") != metaspace)
    throw input_error("{}: \"replacement\" must be U+2581: {}", step.where(), unigram_cure);
  refuse_if(!step.boolean("split", true), step, "split", unigram_cure);
  const std::string scheme = step.has("prepend_scheme") ? step.text("prepend_scheme") : "always";
  settings.add_prefix_space = scheme == "always" && step.boolean("add_prefix_space", true);
  const bool good = scheme == "always" || (scheme == "never" && !settings.split_white_space);
  if (!good || (settings.split_white_space && !settings.add_prefix_space)) {
    throw input_error(
        "{}: \"prepend_scheme\": \"{}\" is not supported here, only \"always\" is: {}",
        step.where(), scheme, unigram_cure);
  }
}

std::unique_ptr<Tokenizer> unigram_from_json(const Members& root, const Members& model,
                                             const Members& config, const std::string& where) {
  UnigramSettings settings;
  refuse_if(model.boolean("byte_fallback", false), model, "byte_fallback", unigram_cure);
  for (const Json& entry : model.array("vocab")) {
    const bool good =
        entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!good)
      throw input_error("{}: vocab: every entry must be a token and its score, found {}",
                        model.where(), entry.dump().substr(0, 80));
    settings.vocabulary.push_back(
        {entry[0].get<std::string>(), static_cast<std::int32_t>(settings.vocabulary.size())});
    settings.scores.push_back(entry[1].get<double>());
  }
  settings.unk_id = checked_id(model.at("unk_id"), model.where(), "unk_id");
  read_pre_tokenizer(root, settings);
  auto description = read_description(root, config, settings.vocabulary);
  if (root.has("normalizer")) read_normalizer(root.object("normalizer"), description.normalizer);
  return make_tokenizer(std::move(settings), std::move(description), where);
}

// Older files leave the model's type out.
std::string model_type(const Members& model) {
  if (model.has("type")) return model.text("type");
  if (model.has("merges")) return "BPE";
  return model.has("vocab") && model.at("vocab").is_array() ? "Unigram" : "WordPiece";
}

}  // namespace

void add_merge(std::string_view line, std::vector<std::pair<std::string, std::string>>& merges,
               const std::string& where) {
  if (line.starts_with("#version")) return;
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    throw input_error("{}: a merge must be two tokens with a space between them, found \"{}\"",
                      where, line.substr(0, 80));
  }
  merges.emplace_back(line.substr(0, space), line.substr(space + 1));
}

AddedToken read_added(const Members& token, bool normalized) {
  return {token.text("content"),
          0,
          token.boolean("single_word", false),
          token.boolean("lstrip", false),
          token.boolean("rstrip", false),
          token.boolean("normalized", normalized),
          token.boolean("special", false)};
}

std::int32_t checked_id(const Json& value, const std::string& where, const std::string& token) {
  // no word table is larger; keeps sums of ids far from overflow
  constexpr std::int64_t limit = 100'000'000;
  const bool good = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() < limit);
  if (!good || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() >= limit) {
    throw input_error("{}: the id of token \"{}\" must be a whole number from 0 to {}", where,
                      token, limit - 1);
  }
  return value.get<std::int32_t>();
}

std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& file, const Members& config,
                                               const std::string& where) {
  const Members root(file, where);
  if (!root.has("model"))
    throw input_error("{}: there is no model; save the tokenizer as tokenizer.json again", where);
  const Members model = root.object("model");
  const std::string type = model_type(model);
  if (type == "WordPiece") return wordpiece_from_json(root, model, config, where);
  if (type == "BPE") return bpe_from_json(root, model, config, where);
  if (type == "Unigram") return unigram_from_json(root, model, config, where);
  throw input_error(
      "{}: model \"{}\" is not supported, only WordPiece, BPE and Unigram are; use a model of the "
      "BERT, RoBERTa, DeBERTa or T5 family",
      where, type);
}

std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view json, const std::string& where) {
  const Json none = Json::object();
  return tokenizer_from_json(parse_json(json, where), Members(none, where), where);
}

}  // namespace gpuhpc
