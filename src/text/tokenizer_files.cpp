// Tokenizer files of Hugging Face folders other than tokenizer.json, read as transformers 5 reads
// them.
#include <algorithm>
#include <charconv>
#include <map>

#include "characters.hpp"
#include "gpuhpc/io/lines.hpp"
#include "tokenizer_parts.hpp"

namespace gpuhpc {
namespace {

namespace fs = std::filesystem;

Json read_object(const fs::path& file) {
  Json object = fs::exists(file) ? read_json(file) : Json::object();
  if (!object.is_object())
    throw input_error("{}: expected an object, found {}", file.string(), object.type_name());
  return object;
}

// tokenizer_config.json; where it does not list the added tokens, with what older files say of
// them.
Json read_config(const fs::path& folder) {
  Json config = read_object(folder / "tokenizer_config.json");
  if (config.contains("added_tokens_decoder")) return config;
  config.update(read_object(folder / "special_tokens_map.json"));
  const Json added = read_object(folder / "added_tokens.json");
  for (const auto& [name, id] : added.items()) {
    const std::string& token = name;
    const bool special = std::any_of(config.begin(), config.end(), [&](const Json& value) {
      return value == token ||
             (value.is_object() && value.contains("content") && value["content"] == token);
    });
    config["added_tokens_decoder"]
          [std::to_string(checked_id(id, (folder / "added_tokens.json").string(), token))] = {
              {"content", token}, {"special", special}};
  }
  return config;
}

// What the folder says it is: the tokenizer's class, else the model's type.
std::string family(const fs::path& folder, const Members& config) {
  if (config.has("tokenizer_class")) {
    const std::string name = config.text("tokenizer_class");
    for (const auto& [begin, type] : {std::pair{"Roberta", "roberta"},
                                      {"DebertaV2", "deberta-v2"},
                                      {"Deberta", "deberta"},
                                      {"GPT2", "gpt2"},
                                      {"T5", "t5"},
                                      {"MT5", "t5"},
                                      {"MPNet", "mpnet"},
                                      {"XLMRoberta", "xlm-roberta"}}) {
      if (name.starts_with(begin)) return type;
    }
  }
  if (!fs::exists(folder / "config.json")) return "";
  const Json model = read_json(folder / "config.json");
  const Members members(model, (folder / "config.json").string());
  const std::string type = members.has("model_type") ? members.text("model_type") : "";
  return type == "mt5" ? "t5" : type;
}

// The added tokens that transformers adds to a vocabulary: those given in tokenizer_config.json,
// then the named ones. A token that the vocabulary lacks takes the next id.
class AddedByName {
 public:
  AddedByName(const std::vector<VocabularyEntry>& vocabulary, const Members& config)
      : id_of_(vocabulary, {}),
        next_(static_cast<std::int32_t>(vocabulary.size())),
        config_(config) {
    if (!config.has("added_tokens_decoder")) return;
    const Members decoder = config.object("added_tokens_decoder");
    std::map<std::int32_t, AddedToken> given;
    for (const auto& [key, entry] : config.at("added_tokens_decoder").items()) {
      std::int32_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id < 0)
        throw input_error("{}: \"{}\" is not an id", decoder.where(), key);
      given[id] = read_added(Members(entry, decoder.where()),
                             !Members(entry, decoder.where()).boolean("special", false));
    }
    for (const auto& [id, token] : given) {
      add(token);
      if (!token.content.empty() && added_.back().id != id) {
        throw input_error(
            "{}: \"{}\" has the id {}, but its place in the vocabulary is {}; save the tokenizer "
            "as tokenizer.json",
            decoder.where(), token.content, id, added_.back().id);
      }
    }
  }

  void add(AddedToken token) {
    const bool known = std::any_of(added_.begin(), added_.end(), [&](const AddedToken& other) {
      return other.content == token.content;
    });
    if (token.content.empty() || known) return;
    const std::int32_t id = id_of_(token.content);
    token.id = id >= 0 ? id : next_++;
    added_.push_back(std::move(token));
  }
  void add_special(const std::string& content) {
    AddedToken token;
    token.content = content;
    token.special = true;
    add(token);
  }
  // The special token called `key` in the configuration; `usual` when it is not there. Returns its
  // name, empty: none.
  std::string add_named(const char* key, AddedToken usual) {
    if (config_.has(key))
      usual = config_.at(key).is_object() ? read_added(config_.object(key), false)
                                          : AddedToken{config_.text(key)};
    usual.special = true;
    add(usual);
    return usual.content;
  }
  std::string add_named(const char* key, const char* usual) {
    return add_named(key, AddedToken{usual});
  }
  std::vector<AddedToken> take() { return std::move(added_); }

 private:
  TokenIds id_of_;
  std::int32_t next_;
  const Members& config_;
  std::vector<AddedToken> added_;
};

// White space at the end goes, as in Hugging Face's reader; all of it is ASCII or ends in a byte
// above 0x7F.
std::string_view trimmed_end(std::string_view token) {
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
  return token;
}

// vocab.txt: one token a line, id = line number from 0.
std::vector<VocabularyEntry> read_vocabulary(const fs::path& file) {
  const std::string whole = read_text_file(file);
  std::vector<VocabularyEntry> vocabulary;
  std::int32_t line = 0;
  for (std::string_view text = whole; !text.empty();) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view token = trimmed_end(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (token.empty())
      throw input_error("{}:{}: an empty line in the vocabulary; take the file of the model again",
                        file.string(), line + 1);
    vocabulary.push_back({std::string(token), line++});
  }
  return vocabulary;
}

std::unique_ptr<Tokenizer> load_wordpiece(const fs::path& folder, const Members& config) {
  const fs::path file = folder / "vocab.txt", more = folder / "added_tokens.json";
  if (fs::exists(more))
    throw input_error(
        "{}: extra tokens beside vocab.txt are not supported; save the tokenizer as tokenizer.json",
        more.string());
  WordPieceSettings settings;
  settings.words.lowercase = config.boolean("do_lower_case", true);
  settings.words.handle_chinese_chars = config.boolean("tokenize_chinese_chars", true);
  settings.words.strip_accents = config.boolean("strip_accents", settings.words.lowercase);
  if (!config.boolean("do_basic_tokenize", true))
    throw input_error("{}: \"do_basic_tokenize\": false is not supported", config.where());
  if (config.has("never_split") && !config.array("never_split").empty())
    throw input_error("{}: \"never_split\" is not supported", config.where());
  settings.vocabulary = read_vocabulary(file);
  check_vocabulary(settings.vocabulary, file.string());
  TokenizerDescription description;
  description.names = read_names(config);
  AddedByName tokens(settings.vocabulary, config);
  const bool mpnet = family(folder, config) == "mpnet";
  settings.unk_token = tokens.add_named("unk_token", "[UNK]");
  const std::string sep = tokens.add_named("sep_token", mpnet ? "</s>" : "[SEP]");
  tokens.add_named("pad_token", mpnet ? "<pad>" : "[PAD]");
  const std::string cls = tokens.add_named("cls_token", mpnet ? "<s>" : "[CLS]");
  AddedToken mask{mpnet ? "<mask>" : "[MASK]"};
  mask.lstrip = mpnet;
  tokens.add_named("mask_token", mask);
  description.templates = mpnet ? roberta_templates(cls, sep) : bert_templates(cls, sep);
  description.decoder = {true, {JoinPieces{"##", true}}};
  description.added = tokens.take();
  std::erase_if(description.added, [&](const AddedToken& token) {  // nothing is put behind BERT's
    return token.id >= std::ssize(settings.vocabulary);
  });
  return make_tokenizer(std::move(settings), std::move(description), file.string());
}

std::unique_ptr<Tokenizer> load_bpe_files(const fs::path& folder, const Members& config) {
  const fs::path vocabulary_file = folder / "vocab.json", merges_file = folder / "merges.txt";
  if (!fs::exists(merges_file))
    throw input_error("{}: merges.txt is missing beside it; take both files of the model",
                      vocabulary_file.string());
  ByteBpeSettings settings;
  const Json vocabulary = read_json(vocabulary_file);
  const Members checked(vocabulary, vocabulary_file.string());
  for (const auto& [token, id] : vocabulary.items())
    settings.vocabulary.push_back({token, checked_id(id, vocabulary_file.string(), token)});
  LineReader lines(merges_file);
  std::string_view line;
  while (lines.next(line)) add_merge(line, settings.merges, lines.where());
  settings.add_prefix_space = config.boolean("add_prefix_space", false);

  AddedByName tokens(settings.vocabulary, config);
  TokenizerDescription description;
  const std::string type = family(folder, config);
  const TokenIds id_of(settings.vocabulary, {});
  const bool deberta = type == "deberta" || (type != "roberta" && id_of("[CLS]") >= 0);
  if (!deberta && (type == "gpt2" || id_of("<s>") < 0)) {
    tokens.add_named("bos_token", "<|endoftext|>");
    description.names.eos = tokens.add_named("eos_token", "<|endoftext|>");
    description.names.unk = tokens.add_named("unk_token", "<|endoftext|>");
    description.names.pad = tokens.add_named("pad_token", "");
  } else {
    tokens.add_named("bos_token", deberta ? "[CLS]" : "<s>");
    description.names.eos = tokens.add_named("eos_token", deberta ? "[SEP]" : "</s>");
    description.names.unk = tokens.add_named("unk_token", deberta ? "[UNK]" : "<unk>");
    const std::string sep = tokens.add_named("sep_token", deberta ? "[SEP]" : "</s>");
    description.names.pad = tokens.add_named("pad_token", deberta ? "[PAD]" : "<pad>");
    const std::string cls = tokens.add_named("cls_token", deberta ? "[CLS]" : "<s>");
    description.names.mask = tokens.add_named("mask_token", deberta ? "[MASK]" : "<mask>");
    description.templates = deberta ? bert_templates(cls, sep) : roberta_templates(cls, sep);
  }
  description.decoder = {true, {JoinBytes{}}};
  description.added = tokens.take();
  return make_tokenizer(std::move(settings), std::move(description), vocabulary_file.string());
}

void add_piece(UnigramSettings& settings, const std::string& token, double score) {
  settings.vocabulary.push_back({token, static_cast<std::int32_t>(settings.vocabulary.size())});
  settings.scores.push_back(score);
}

void add_control_pieces(const SentencePieceFile& file, AddedByName& tokens) {
  for (const auto& piece : file.pieces) {
    if (piece.type == SentencePieceFile::Type::control ||
        piece.type == SentencePieceFile::Type::user_defined)
      tokens.add_special(piece.token);
  }
}

void add_charsmap(const SentencePieceFile& file, TokenizerDescription& description,
                  const std::string& where) {
  if (!file.charsmap.empty())
    description.normalizer.emplace_back(std::make_shared<const Charsmap>(file.charsmap, where));
}

// DeBERTa v2 and v3. As transformers 5 does, the file's own charsmap is not used.
std::unique_ptr<Tokenizer> deberta_from_pieces(const SentencePieceFile& file, const Members& config,
                                               const std::string& where) {
  if (config.boolean("split_by_punct", false) || !config.boolean("add_prefix_space", true)) {
    throw input_error(
        "{}: \"split_by_punct\": true and \"add_prefix_space\": false are not supported; use a "
        "model without them",
        config.where());
  }
  UnigramSettings settings;
  for (const auto& [token, score, kind] : file.pieces) add_piece(settings, token, score);
  settings.unk_id = file.unk_id;
  TokenizerDescription description;
  if (config.boolean("do_lower_case", false)) description.normalizer.emplace_back(LowercaseText{});
  description.normalizer.emplace_back(ReplaceText{ReplaceText::Pattern::white_space, "", " "});
  description.normalizer.emplace_back(ComposeText{});
  description.normalizer.emplace_back(StripSpaces{false, true});
  AddedByName tokens(settings.vocabulary, config);
  tokens.add_named("bos_token", "[CLS]");
  description.names.eos = tokens.add_named("eos_token", "[SEP]");
  tokens.add_named("unk_token", "[UNK]");
  const std::string sep = tokens.add_named("sep_token", "[SEP]");
  description.names.pad = tokens.add_named("pad_token", "[PAD]");
  const std::string cls = tokens.add_named("cls_token", "[CLS]");
  description.names.mask = tokens.add_named("mask_token", "[MASK]");
  add_control_pieces(file, tokens);
  description.templates = bert_templates(cls, sep);
  description.decoder = {true, {JoinSpaced{metaspace}}};
  description.added = tokens.take();
  return make_tokenizer(std::move(settings), std::move(description), where);
}

std::unique_ptr<Tokenizer> t5_from_pieces(const SentencePieceFile& file, const Members& config,
                                          const std::string& where) {
  UnigramSettings settings;
  settings.split_white_space = true;
  for (const auto& [token, score, kind] : file.pieces) add_piece(settings, token, score);
  const std::int32_t extra = config.has("extra_ids")
                                 ? checked_id(config.at("extra_ids"), config.where(), "extra_ids")
                                 : 100;
  if (extra > 10'000)
    throw input_error("{}: \"extra_ids\" is {}; take the file of the model again", config.where(),
                      extra);
  for (std::int32_t i = extra; i-- > 0;) add_piece(settings, fmt::format("<extra_id_{}>", i), 0);
  settings.unk_id = 2;
  TokenizerDescription description;
  add_charsmap(file, description, where);
  AddedByName tokens(settings.vocabulary, config);
  description.names.eos = tokens.add_named("eos_token", "</s>");
  tokens.add_named("unk_token", "<unk>");
  description.names.pad = tokens.add_named("pad_token", "<pad>");
  add_control_pieces(file, tokens);
  for (std::int32_t i = 0; i < extra; ++i) tokens.add_special(fmt::format("<extra_id_{}>", i));
  description.templates.single = {{'A', "", 0}, {0, "</s>", 0}};
  description.templates.pair = {{'A', "", 0}, {0, "</s>", 0}, {'B', "", 0}, {0, "</s>", 0}};
  description.decoder = {true, {JoinSpaced{metaspace}}};
  description.added = tokens.take();
  return make_tokenizer(std::move(settings), std::move(description), where);
}

std::unique_ptr<Tokenizer> xlm_roberta_from_pieces(const SentencePieceFile& file,
                                                   const Members& config,
                                                   const std::string& where) {
  if (!config.boolean("add_prefix_space", true))
    throw input_error("{}: \"add_prefix_space\": false is not supported; use a model without it",
                      config.where());
  UnigramSettings settings;
  settings.split_white_space = true;
  // Fairseq's order of the first four; the file has its own for three of them.
  for (const char* token : {"<s>", "<pad>", "</s>", "<unk>"}) add_piece(settings, token, 0);
  for (std::size_t i = 3; i < file.pieces.size(); ++i)
    add_piece(settings, file.pieces[i].token, file.pieces[i].score);
  add_piece(settings, "<mask>", 0);
  settings.unk_id = 3;
  TokenizerDescription description;
  add_charsmap(file, description, where);
  AddedByName tokens(settings.vocabulary, config);
  const std::string bos = tokens.add_named("bos_token", "<s>"),
                    eos = tokens.add_named("eos_token", "</s>");
  tokens.add_named("unk_token", "<unk>");
  tokens.add_named("sep_token", "</s>");
  description.names.pad = tokens.add_named("pad_token", "<pad>");
  tokens.add_named("cls_token", "<s>");
  description.names.mask = tokens.add_named("mask_token", "<mask>");
  add_control_pieces(file, tokens);
  description.names.eos = eos;
  description.templates = roberta_templates(bos, eos);
  description.decoder = {true, {JoinSpaced{metaspace}}};
  description.added = tokens.take();
  return make_tokenizer(std::move(settings), std::move(description), where);
}

std::unique_ptr<Tokenizer> load_pieces(const fs::path& file, const Members& config) {
  const std::string where = file.string();
  std::string type = family(file.parent_path(), config);
  if (type.empty() && file.filename() == "spm.model") type = "deberta-v2";
  const SentencePieceFile pieces = parse_sentencepiece(read_text_file(file), where);
  if (type == "deberta-v2") return deberta_from_pieces(pieces, config, where);
  if (type == "t5") return t5_from_pieces(pieces, config, where);
  if (type == "xlm-roberta") return xlm_roberta_from_pieces(pieces, config, where);
  throw input_error(
      "{}: SentencePiece files are read for DeBERTa v2 and v3, T5 and XLM-RoBERTa, "
      "tokenizer_config.json and config.json name none of them; save the tokenizer as "
      "tokenizer.json",
      where);
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& model_folder) {
  const Json settings = read_config(model_folder);
  const Members config(settings, (model_folder / "tokenizer_config.json").string());
  if (config.has("truncation_side") && config.at("truncation_side") != "right")
    throw input_error(
        "{}: \"truncation_side\" is not \"right\": long texts would lose their beginning; the end "
        "alone is cut off here: set it to \"right\" if that will do",
        config.where());
  const auto there = [&](const char* name) { return fs::exists(model_folder / name); };
  if (there("tokenizer.json")) {
    const fs::path json = model_folder / "tokenizer.json";
    return tokenizer_from_json(read_json(json), config, json.string());
  }
  if (there("vocab.txt")) return load_wordpiece(model_folder, config);
  if (there("vocab.json")) return load_bpe_files(model_folder, config);
  for (const char* name : {"spm.model", "spiece.model", "sentencepiece.bpe.model"}) {
    if (there(name)) return load_pieces(model_folder / name, config);
  }
  if (there("bpe_encoder.bin")) {
    throw input_error(
        "{}: a Python pickle, which is not read; convert it once: python -c \"from transformers "
        "import AutoTokenizer as T; T.from_pretrained('{}').save_pretrained('{}')\"",
        (model_folder / "bpe_encoder.bin").string(), model_folder.string(), model_folder.string());
  }
  // Older sentence-transformers folders keep the transformer, tokenizer and all, in one of their
  // own.
  if (const fs::path inside = model_folder / "0_Transformer"; fs::is_directory(inside))
    return load_tokenizer(inside);
  throw io_error(
      "{}: there is neither tokenizer.json nor vocab.txt, vocab.json, spm.model, spiece.model or "
      "sentencepiece.bpe.model; give the folder of a model",
      model_folder.string());
}

}  // namespace gpuhpc
