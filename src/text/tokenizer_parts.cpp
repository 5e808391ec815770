#include "tokenizer_parts.hpp"

#include <set>

#include "gpuhpc/io/checksum.hpp"
#include "vocabulary.hpp"

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
void normalize_tokens(std::vector<AddedToken>& tokens, const TextNormalizer& normalizer,
                      const std::string& where) {
  TextNormalizer::Buffers buffers;
  std::set<std::string> seen;
  for (auto& token : tokens) {
    token.content = std::string(normalizer.apply(token.content, buffers));
    if (token.content.empty() || !seen.insert(token.content).second) {
      throw input_error(
          "{}: added token {} is nothing or another token once it is normalised; save it with "
          "\"normalized\": false",
          where, token.id);
    }
  }
}

TokenizerParts make_parts(const std::vector<VocabularyEntry>& vocabulary,
                          const std::string& model_print, TokenizerDescription description,
                          const std::string& where) {
  const TokenIds id_of(vocabulary, description.added);
  TokenizerParts parts;
  const auto& [cls, sep, pad, unk, mask] = description.names;
  parts.cls = description.special.cls.empty() ? -1 : needed(id_of, description.special.cls, where);
  parts.sep = description.special.sep.empty() ? -1 : needed(id_of, description.special.sep, where);
  parts.pad = named_or_usual(id_of, pad, {"[PAD]", "<pad>"});
  parts.unk = named_or_usual(id_of, unk, {"[UNK]", "<unk>"});
  parts.mask = named_or_usual(id_of, mask, {"[MASK]", "<mask>"});
  parts.pair = resolved(description.special, id_of, where);
  parts.normalizer = TextNormalizer(std::move(description.normalizer));
  Fingerprint print;
  print.add(model_print).add(parts.normalizer.fingerprint());
  for (const auto& [token, id] : vocabulary)
    parts.vocabulary_size = std::max(parts.vocabulary_size, std::int64_t{id} + 1);
  for (const auto& t : description.added) {
    parts.vocabulary_size = std::max(parts.vocabulary_size, std::int64_t{t.id} + 1);
    print.add(t.content).add(std::int64_t{t.id} * 16 + t.normalized * 8 + t.single_word * 4 +
                             t.lstrip * 2 + t.rstrip);
    (t.normalized ? parts.normalized_added : parts.added).push_back(t);
  }
  normalize_tokens(parts.normalized_added, parts.normalizer, where);
  for (const std::int32_t id : {parts.cls, parts.sep, parts.pad, parts.unk, parts.mask})
    print.add(std::int64_t{id});
  parts.fingerprint = print.hex();
  return parts;
}

std::vector<PairTemplate::Special> bert_like(std::int32_t id, std::int32_t segment) {
  if (id < 0) return {};
  return {{id, segment}};
}

}  // namespace

NamedTemplate bert_template(const std::string& cls, const std::string& sep) {
  return {cls, sep, {}};
}

NamedTemplate roberta_template(const std::string& cls, const std::string& sep) {
  return {
      cls, sep, {{0, cls, 0}, {'A', "", 0}, {0, sep, 0}, {0, sep, 0}, {'B', "", 0}, {0, sep, 0}}};
}

PairTemplate resolved(const NamedTemplate& named, const TokenIds& id_of, const std::string& where) {
  if (named.pair.empty()) {
    const std::int32_t cls = named.cls.empty() ? -1 : needed(id_of, named.cls, where),
                       sep = named.sep.empty() ? -1 : needed(id_of, named.sep, where);
    return {bert_like(cls, 0), bert_like(sep, 0), bert_like(sep, 1), 0, 1};
  }
  PairTemplate pair;
  auto* specials = &pair.before;
  for (const auto& [text, token, segment] : named.pair) {
    if (text == 'A') {
      pair.first_segment = segment, specials = &pair.between;
    } else if (text == 'B') {
      pair.second_segment = segment, specials = &pair.after;
    } else {
      specials->push_back({needed(id_of, token, where), segment});
    }
  }
  return pair;
}

std::unique_ptr<Tokenizer> make_tokenizer(const ByteBpeSettings& settings,
                                          TokenizerDescription description,
                                          const std::string& where) {
  ByteBpe model(settings, where);
  auto parts = make_parts(settings.vocabulary, model.fingerprint(), std::move(description), where);
  return std::make_unique<CachedTokenizer<ByteBpe>>(std::move(model), std::move(parts));
}

std::unique_ptr<Tokenizer> make_tokenizer(const UnigramSettings& settings,
                                          TokenizerDescription description,
                                          const std::string& where) {
  Unigram model(settings, where);
  auto parts = make_parts(settings.vocabulary, model.fingerprint(), std::move(description), where);
  parts.unk = settings.unk_id;
  return std::make_unique<CachedTokenizer<Unigram>>(std::move(model), std::move(parts));
}

}  // namespace gpuhpc
