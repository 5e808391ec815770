#include "gpuhpc/text/tokenizer.hpp"

#include <algorithm>
#include <set>

#include "gpuhpc/io/checksum.hpp"
#include "text_tokenizer.hpp"

namespace gpuhpc {
namespace {

// The named token, or the first of the usual names that the vocabulary has.
std::int32_t named_or_usual(const TokenIds& id_of, const std::string& name,
                            std::initializer_list<const char*> usual) {
  if (!name.empty()) return id_of(name);
  for (const char* token : usual) {
    if (const std::int32_t id = id_of(token); id >= 0) return id;
  }
  return -1;
}

std::int32_t needed(const TokenIds& id_of, const std::string& token, const std::string& where) {
  const std::int32_t id = id_of(token);
  if (id < 0)
    throw input_error(
        "{}: the vocabulary has no {}, which the model's input needs; take the file of the model "
        "again",
        where, token);
  return id;
}

// Tokens that are looked for in normalised text are normalised themselves.
void normalize_tokens(std::vector<AddedToken>& tokens,
                      const std::function<std::string(std::string_view)>& normalize,
                      const std::string& where) {
  std::set<std::string> seen;
  for (auto& token : tokens) {
    token.content = normalize(token.content);
    if (token.content.empty() || !seen.insert(token.content).second) {
      throw input_error(
          "{}: added token {} is nothing or another token once it is normalised; save it with "
          "\"normalized\": false",
          where, token.id);
    }
  }
}

SpecialTokens resolved(const TokenizerDescription& description, const TokenIds& id_of,
                       const std::string& where) {
  SpecialTokens special;
  const SpecialNames& names = description.names;
  special.pad = named_or_usual(id_of, names.pad, {"[PAD]", "<pad>"});
  special.unk = named_or_usual(id_of, names.unk, {"[UNK]", "<unk>"});
  special.mask = named_or_usual(id_of, names.mask, {"[MASK]", "<mask>"});
  special.eos = named_or_usual(id_of, names.eos, {"</s>", "<|endoftext|>"});
  bool behind = false;
  for (const auto& [text, token, segment] : description.templates.single) {
    if (text != 0)
      behind = true;
    else
      (behind ? special.single.after : special.single.before)
          .push_back(needed(id_of, token, where));
  }
  PairTemplate& pair = special.pair;
  pair.second_segment = 1;
  auto* specials = &pair.before;
  for (const auto& [text, token, segment] : description.templates.pair) {
    if (text == 'A') {
      pair.first_segment = segment, specials = &pair.between;
    } else if (text == 'B') {
      pair.second_segment = segment, specials = &pair.after;
    } else {
      specials->push_back({needed(id_of, token, where), segment});
    }
  }
  for (const AddedToken& token : description.added) {
    if (token.special) special.ids.push_back(token.id);
  }
  std::sort(special.ids.begin(), special.ids.end());
  return special;
}

// The vocabulary and the added tokens by id.
std::vector<VocabularyEntry> all_tokens(std::vector<VocabularyEntry> vocabulary,
                                        const std::vector<AddedToken>& added) {
  for (const AddedToken& token : added) vocabulary.push_back({token.content, token.id});
  const auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  std::stable_sort(vocabulary.begin(), vocabulary.end(), by_id);
  const auto same_id = [](const auto& a, const auto& b) { return a.id == b.id; };
  vocabulary.erase(std::unique(vocabulary.begin(), vocabulary.end(), same_id), vocabulary.end());
  return vocabulary;
}

// Puts a prompt before every text. A prompt and a text are cut together: where they meet, a piece
// may be of both.
class PromptedTokenizer final : public Tokenizer {
 public:
  PromptedTokenizer(std::unique_ptr<Tokenizer> tokenizer, std::string prompt)
      : tokenizer_(std::move(tokenizer)), prompt_(std::move(prompt)) {}
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    tokenizer_->encode(prompt_ + std::string(text), ids);
  }
  void encode_with(TokenizerScratch& scratch, std::string_view text,
                   std::vector<std::int32_t>& ids) const override {
    tokenizer_->encode_with(scratch, prompt_ + std::string(text), ids);
  }
  std::unique_ptr<TokenizerScratch> make_scratch() const override {
    return tokenizer_->make_scratch();
  }
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const override {
    return tokenizer_->decode(ids, skip_special_tokens);
  }
  std::int64_t vocabulary_size() const override { return tokenizer_->vocabulary_size(); }
  const SpecialTokens& special() const override { return tokenizer_->special(); }
  std::string fingerprint() const override {
    return Fingerprint().add(tokenizer_->fingerprint()).add(prompt_).hex();
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string prompt_;
};

}  // namespace

TokenizerParts make_parts(std::vector<VocabularyEntry> vocabulary, const std::string& model_print,
                          TokenizerDescription description, const std::string& where,
                          const std::function<std::string(std::string_view)>& normalize) {
  TokenizerParts parts;
  parts.special = resolved(description, TokenIds(vocabulary, description.added), where);
  Fingerprint print;
  print.add(model_print);
  for (const auto& t : description.added) {
    print.add(t.content).add(std::int64_t{t.id} * 16 + t.normalized * 8 + t.single_word * 4 +
                             t.lstrip * 2 + t.rstrip);
    (t.normalized ? parts.normalized_added : parts.added).push_back(t);
  }
  parts.fingerprint = print.hex();
  normalize_tokens(parts.normalized_added, normalize, where);
  parts.tokens = all_tokens(std::move(vocabulary), description.added);
  parts.decoder = std::move(description.decoder);
  return parts;
}

std::string TokenizerParts::decode(std::span<const std::int32_t> ids,
                                   bool skip_special_tokens) const {
  std::vector<std::string> texts;
  for (const std::int32_t id : ids) {
    if (skip_special_tokens && std::ranges::binary_search(special.ids, id)) continue;
    const auto token = std::ranges::lower_bound(tokens, id, {}, &VocabularyEntry::id);
    if (token != tokens.end() && token->id == id) texts.push_back(token->token);
  }
  return decoder.text_of(std::move(texts));
}

void Tokenizer::encode_with(TokenizerScratch&, std::string_view text,
                            std::vector<std::int32_t>& ids) const {
  encode(text, ids);
}

std::unique_ptr<TokenizerScratch> Tokenizer::make_scratch() const {
  return std::make_unique<TokenizerScratch>();
}

std::unique_ptr<Tokenizer> behind_prompt(std::unique_ptr<Tokenizer> tokenizer, std::string prompt) {
  if (prompt.empty()) return tokenizer;
  return std::make_unique<PromptedTokenizer>(std::move(tokenizer), std::move(prompt));
}

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

TokenPair paired(const PairTemplate& pair, std::span<const std::int32_t> first,
                 std::span<const std::int32_t> second, std::int64_t max_length) {
  const std::int64_t room = max_length - pair.specials() - std::ssize(second);
  if (room < 1) {
    throw configuration_error(
        "a length limit of {} has no room for a second text of {} tokens with {} special tokens; "
        "raise it",
        max_length, second.size(), pair.specials());
  }
  TokenPair result;
  const auto add_specials = [&](const std::vector<PairTemplate::Special>& specials) {
    for (const auto& [id, segment] : specials)
      result.ids.push_back(id), result.segments.push_back(segment);
  };
  const auto add_text = [&](std::span<const std::int32_t> ids, std::int32_t segment) {
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.segments.resize(result.ids.size(), segment);
  };
  add_specials(pair.before);
  add_text(first.first(std::min(first.size(), static_cast<std::size_t>(room))), pair.first_segment);
  add_specials(pair.between);
  add_text(second, pair.second_segment);
  add_specials(pair.after);
  return result;
}

}  // namespace gpuhpc
